"""Where a warm start begins: from what an experiment names to the checkpoint that is meant."""

from __future__ import annotations

from burst.core.checkpoints.removal.delete import restorable
from burst.core.checkpoints.removal.reasons import is_deleted
from burst.core.checkpoints.removal.uses import IMPORTS, users
from burst.core.config.experiment import WarmStart
from burst.core.errors import NotFound, Refused
from burst.core.model import Checkpoint, Model, Trial
from burst.core.store.port import Store


def find_source(store: Store, name: str) -> Checkpoint:
    """The checkpoint to start from: `name` is a checkpoint's id, a trial's id (its newest durable
    one is meant), or the name of an imported model (its newest version is).

    Raises:
        NotFound: there is no such checkpoint, or it is deleted.
        Refused: it is damaged, or lies on the disk of one node alone.
    """
    if name.startswith("ckpt-"):
        return _usable(store.get(Checkpoint, name))
    if name.startswith("exp-"):
        return _of_trial(store, name)
    model = store.find(Model, name)
    if model is None or not model.versions:
        raise NotFound(
            f"no model is called {name!r}",
            mend="`burst checkpoint import PATH --name NAME` makes one; a checkpoint's or a "
            "trial's id is taken as well",
        )
    return _usable(store.get(Checkpoint, model.versions[-1]))


def check_start(store: Store, start: WarmStart) -> Checkpoint:
    """The checkpoint that a warm start begins with.

    Raises:
        NotFound, Refused: as `find_source`.
        Refused: everything is asked for of what holds weights alone.
    """
    source = find_source(store, start.checkpoint)
    if start.what == "everything" and source.trial == IMPORTS:
        raise Refused(
            f"checkpoint {source.id} holds weights alone",
            why="it was imported, so there is no optimizer or position to continue from",
            mend="leave --everything out, or write `what: weights`",
        )
    return source


def continued_seed(store: Store, start: WarmStart | None) -> int | None:
    """The seed of the trial whose checkpoint another continues with everything, so that it draws
    the same order of data; None where trials have seeds of their own."""
    if start is None or start.what != "everything":
        return None
    source = store.find(Checkpoint, start.checkpoint)
    trial = store.find(Trial, source.trial) if source is not None else None
    return trial.seed if trial is not None else None


def started(store: Store, source: Checkpoint, experiment: str) -> Checkpoint:
    """The record of `source` with the note that `experiment` starts from it, for the commit that
    writes that experiment. A removal of the checkpoint in between makes that commit a conflict."""
    return source.model_copy(update={"started": (*users(store, source), experiment)})


def _of_trial(store: Store, id: str) -> Checkpoint:
    trial = store.get(Trial, id)
    written = store.children(Checkpoint, trial.id)
    for record in restorable(written):
        if record.durable:
            return record
    kept = [record for record in written if record.deleted is None]
    raise NotFound(
        f"trial {trial.id} has no checkpoint to start from",
        why="all that it has are damaged, or lie on the disk of one node" if kept else "",
        mend=f"`burst checkpoint list {trial.id} --all` shows those there were",
    )


def _usable(record: Checkpoint) -> Checkpoint:
    if record.deleted is not None:
        raise is_deleted(record)
    if record.damaged:
        raise Refused(
            f"checkpoint {record.id} is damaged",
            why=record.damaged,
            mend=f"`burst checkpoint list {record.trial}` shows those that are not",
        )
    if not record.durable:
        raise Refused(
            f"checkpoint {record.id} lies on the disk of one node alone",
            why=f"that is {record.copies[0].node}, and a trial may start elsewhere",
            mend="wait until it is copied to storage that all nodes see",
        )
    return record
