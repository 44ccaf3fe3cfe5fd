"""What ends all that carries a rehearsal's mark, once whoever rehearses is gone, even by kill -9:
`python -m burst.runner.rehearsal.sweeping FOLDER`.

It hears of that by the end of its stdin. A local agent is left by whoever starts it, so that no
guard is above it, as one is above the machines.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from burst.runner.rehearsal.ec2.marks import sweep


@contextmanager
def swept(folder: Path) -> Iterator[None]:
    """After the block, whatever ends it, nothing runs that carries the mark of `folder`."""
    command = [sys.executable, "-m", "burst.runner.rehearsal.sweeping", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):
        yield


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    sweep(sys.argv[1])


if __name__ == "__main__":
    main()
