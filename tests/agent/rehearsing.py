"""A stand-in for `burst.harness.rehearse`: says what the file beside the store's tells it to.

That file holds JSON: what to say, by checkpoint or for `*`, and notes what the process found.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    store, checkpoint = sys.argv[2], sys.argv[4]
    place = Path(store.removeprefix("sqlite://")).with_name("rehearsal.json")
    said = json.loads(place.read_text())
    found = {
        "nice": os.nice(0),
        "environ": sorted(os.environ),
        "folder": os.getcwd(),
        "pid": os.getpid(),
    }
    place.with_name(f"{checkpoint}.json").write_text(json.dumps(found))
    do = said.get(checkpoint, said.get("*"))
    if do == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if do == "hang":
        time.sleep(600)
    print("a warning of some library")
    print(json.dumps({"checkpoint": checkpoint, "good": do == "good", "problems": said["why"]}))
    return 0 if do == "good" else 1


if __name__ == "__main__":
    sys.exit(main())
