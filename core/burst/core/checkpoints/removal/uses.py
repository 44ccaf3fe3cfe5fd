"""Who needs a checkpoint beyond the trial that wrote it."""

from __future__ import annotations

from burst.core.model import Checkpoint, Experiment
from burst.core.store.port import Store

IMPORTS = "imports"
"""The `trial` of checkpoints that were imported, which no experiment's retention looks at."""


def users(store: Store, checkpoint: Checkpoint) -> tuple[str, ...]:
    """The live experiments that start from a checkpoint (`Checkpoint.started`).

    Read one by one, because an index of what is live may lag: a removal that is decided by this
    and commits the record at the version it has read can never take a source away.
    """
    there = (store.find(Experiment, id) for id in checkpoint.started)
    return tuple(found.id for found in there if found is not None and found.live)
