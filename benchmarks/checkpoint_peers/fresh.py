"""A process that is started to resume: `python -m benchmarks.checkpoint_peers.fresh FOLDER`.

The model is there, but its optimizer has made no state yet, so memory for it is new. Prints one
line of JSON: seconds, and bytes of memory beyond that state.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from benchmarks.checkpoint_peers.limits import Peak
from benchmarks.checkpoint_peers.ours import Ours
from benchmarks.checkpoint_peers.state import Training, bytes_of


def main(folder: Path) -> None:
    training = Training()
    before = training.bytes
    trial = Ours(training, folder)
    peak, begun = Peak(), time.perf_counter()
    trial.resume()
    took = time.perf_counter() - begun
    new = bytes_of(training.tensors().values()) - before
    print(json.dumps({"seconds": took, "extra": peak.extra() - new}))
    trial.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
