"""`python -m burst.runner`: reconcile in the foreground until told to stop."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence

from burst.core.errors import BurstError, ExitCode
from burst.core.workspace import open_workspace
from burst.runner.loop import Runner, is_idle

log = logging.getLogger("burst.runner")


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m burst.runner", description=__doc__)
    parser.add_argument("--until-idle", action="store_true", help="leave when nothing is live")
    options = parser.parse_args(argv)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    try:
        ws = open_workspace()
    except BurstError as error:
        print(f"Error: {error}", file=sys.stderr)
        return int(error.exit_code)
    runner = Runner(ws)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: runner.stop())
    log.info("reconciling %s", ws.store.url)
    runner.run(until=(lambda: is_idle(ws.store)) if options.until_idle else None)
    return int(ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())
