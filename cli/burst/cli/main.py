"""The `burst` command, from its first line on: Ctrl-C is met by words while imports go on, too."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that `sys.argv` names, and exit with its status."""
    try:
        from burst.cli.root import cli
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted before anything was done.\n")
        sys.exit(130)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    cli.main()
