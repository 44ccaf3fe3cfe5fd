"""The `burst` command, from its first line on: Ctrl-C is met by words while imports go on, too."""

from __future__ import annotations

import signal
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command that `sys.argv` names, and exit with its status."""
    try:
        from burst.cli.root import cli
    except KeyboardInterrupt:
        _end_at_once_on_ctrl_c()
        sys.stderr.write("\nInterrupted before anything was done.\n")
        sys.exit(_INTERRUPTED)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        cli.main()
    except KeyboardInterrupt:  # another one, while the first was told of
        sys.exit(_INTERRUPTED)
    finally:
        _end_at_once_on_ctrl_c()


def _end_at_once_on_ctrl_c() -> None:
    """All is said: from now on Ctrl-C ends the process without the traceback of its end."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
