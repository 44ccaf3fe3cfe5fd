"""Ends a script that burst is attached to before it trains, with an error that is for people."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from burst.core.errors import BurstError
from burst.core.launch import read_launch
from burst.harness.leaving import note, status_of
from burst.harness.traces import format_user_traceback


def refuse(error: BurstError) -> NoReturn:
    """Show the error, leave it for the agent whatever a shell makes of the exit status, and exit
    as `argparse` does where it refuses a command line."""
    sys.stderr.write(format_user_traceback(error))
    sys.stderr.flush()
    status, kind = status_of(error)
    spec = read_launch()
    if spec is not None:
        note(spec, int(os.environ.get("RANK", "0")), error, status, kind)
    raise SystemExit(status)
