"""Ends a script that burst is attached to before it trains, with an error that is for people."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from burst.core.errors import BurstError
from burst.core.launch import read_launch
from burst.core.model import Checkpoint
from burst.core.store import open_store
from burst.harness.errors import TrialError
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


def refuse_if_kept(error: Exception) -> None:
    """Where burst cannot attach to a Trainer whose earlier attempts it has kept, have the script
    not begin anew as if there had been none.

    Args:
        error: why it cannot.
    """
    spec = read_launch()
    if spec is None or spec.attempt == 1:
        return
    store = open_store(spec.store_url)
    try:
        kept = any(each.deleted is None for each in store.children(Checkpoint, spec.trial))
    finally:
        store.close()
    if kept:
        refuse(
            TrialError(
                "burst cannot attach to this script's Trainer, and the trial has checkpoints",
                why=f"{type(error).__name__}: {error}",
                mend="give it the versions of burst and transformers that earlier attempts had",
            )
        )
