"""Removing checkpoints and what is left of unfinished ones, and keeping some from removal.

The files of a checkpoint may be named by others, of the same trial or not. How it is made sure
that none of these loses one is told in `burst.core.checkpoints.removal.collect`.
"""

from __future__ import annotations

from collections.abc import Sequence

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import owner_of, trial_folder
from burst.core.checkpoints.removal.collect import Library, Reach, collect, remove
from burst.core.checkpoints.removal.uses import users
from burst.core.clock import Clock, SystemClock
from burst.core.errors import Refused
from burst.core.model import Checkpoint, Event, Model, Trial
from burst.core.states import Reason, is_terminal
from burst.core.store import update
from burst.core.store.port import Append, Fence, Put, Store, Write

_SYSTEM_CLOCK = SystemClock()


def delete(
    blobs: Blobs,
    store: Store,
    record: Checkpoint,
    *,
    because: Reason | None = None,
    tiers: Sequence[Blobs] = (),
    clock: Clock = _SYSTEM_CLOCK,
) -> int:
    """Remove a checkpoint, from all tiers that can be reached; returns the bytes freed. Doing it
    again changes nothing, or finishes what was interrupted.

    Args:
        blobs: open already; they are used if it lies there. Tiers that outlive their node are
            opened by themselves.
        because: who or what removes it, for its record; of several calls the first counts.
        tiers: more that are open: the disk of this node.

    Raises:
        Refused: if it is pinned or registered, or a trial that is not over would continue from it,
            or a live experiment starts from it.
        Unreachable: if a tier did not answer. It counts as deleted; its files may be there still.
    """
    mark_deleted(store, record, because, clock)
    return _finish(Reach([blobs, *tiers]), store, record.trial, tiers)


def mark_deleted(
    store: Store, record: Checkpoint, because: Reason | None, clock: Clock
) -> Checkpoint:
    """Let a checkpoint count as deleted; its files are removed by whoever removes or sweeps next.
    Returns its record. Idempotent.

    Raises:
        Refused: as `delete`.
    """
    return update(
        store, Checkpoint, record.id, lambda found: _delete(store, found, because, clock)
    )


def finish(store: Store, trial: str, tiers: Sequence[Blobs]) -> int:
    """Finish the removals of a trial's checkpoints, as far as it can be done from here; returns
    the bytes freed. For a node: what others could not remove from its own disk, or not at all
    while the trial's newest checkpoint lay there alone.

    Args:
        tiers: those that are open. Others that outlive their node are opened by themselves.

    Raises:
        Unreachable: if a tier did not answer.
    """
    return _finish(Reach(tiers), store, trial, tiers)


def finish_in(space: Blobs, library: Library, trial: str) -> int:
    """The same for one tier alone, whose removals others have left to this process."""
    return collect(library, [space], library.store.children(Checkpoint, trial))


def _finish(reach: Reach, store: Store, trial: str, tiers: Sequence[Blobs]) -> int:
    own = store.children(Checkpoint, trial)
    # those of deleted ones too: they may hold a file for the sake of one that they do not hold yet
    spaces = {space.url: space for space in (*tiers, *reach.of(own))}
    return collect(Library(reach, store), list(spaces.values()), own)


def sweep(blobs: Blobs, store: Store, fence: Fence, *, tiers: Sequence[Blobs] = ()) -> int:
    """Remove what no checkpoint of a trial needs from `blobs` and `tiers`: files of saves that
    were interrupted, and what an interrupted removal has left. Returns the bytes freed.

    Call it under the trial's newest token while no save is under way: then a folder that was there
    before the fence was checked, and has no record after, can never get one.

    Raises:
        Fenced: if a newer allocation owns the trial; nothing was removed.
        Unreachable: if one of them did not answer.
    """
    spaces = [blobs, *tiers]
    there = [(space, list(space.list(trial_folder(fence.trial)))) for space in spaces]
    store.commit(fence)
    own = store.children(Checkpoint, fence.trial)
    known = {record.id for record in own}
    freed = 0
    for space, lying in there:
        freed += remove(space, [blob for blob in lying if owner_of(blob.key)[1] not in known])
    return freed + collect(Library(Reach(spaces), store), spaces, own)


def pin(store: Store, checkpoint: str, reason: str = "") -> Checkpoint:
    """Exempt a checkpoint from retention and removal; returns its record. Idempotent.

    Raises:
        NotFound: no such checkpoint.
        Refused: if it is deleted.
    """

    def change(record: Checkpoint) -> Checkpoint | None:
        if record.deleted is not None:
            raise Refused(f"checkpoint {record.id} is deleted")
        pinned = record.model_copy(update={"pinned": True, "pin_reason": reason})
        return None if pinned == record else pinned

    return update(store, Checkpoint, checkpoint, change)


def unpin(store: Store, checkpoint: str) -> Checkpoint:
    """Undo `pin`; returns the record. Idempotent.

    Raises:
        NotFound: no such checkpoint.
    """
    free = {"pinned": False, "pin_reason": ""}
    return update(
        store,
        Checkpoint,
        checkpoint,
        lambda record: record.model_copy(update=free) if record.pinned else None,
    )


def restorable(records: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The checkpoints that a trial could continue from, the one to take first coming first: newest
    by batches, of those at the same batch the one written last, but for those that a later attempt
    has left behind, which come last.

    Such are at or beyond a checkpoint of a later attempt. That attempt began before them, because
    they lay on the disk of a node that it was not on; its metrics have replaced what was reported
    on the way to them.
    """
    good = [record for record in records if record.deleted is None and not record.damaged]
    good.sort(key=lambda record: (record.batches, record.created, record.id), reverse=True)
    return sorted(good, key=lambda record: _is_left_behind(record, good))


def _is_left_behind(record: Checkpoint, others: Sequence[Checkpoint]) -> bool:
    return any(
        other.attempt > record.attempt and other.batches <= record.batches for other in others
    )


def indispensable(records: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Those of a trial's checkpoints that must stay while it is not over: the one that it would
    continue from, and, if that lies on one node's disk alone, the newest that outlives nodes."""
    good = restorable(records)
    return good[:1] + [record for record in good if record.durable][:1]


def _delete(
    store: Store, record: Checkpoint, because: Reason | None, clock: Clock
) -> Sequence[Write]:
    if record.deleted is not None:
        return ()
    _refuse_if_needed(store, record)
    now = clock.now()
    why = "" if because is None else f": {because}"
    event = Event(
        subject=record.id,
        experiment=record.experiment,
        name="checkpoint.deleted",
        text=f"checkpoint at batch {record.batches} deleted{why}",
        at=now,
        data={"trial": record.trial, "batches": record.batches},
    )
    deleted = {"deleted": now, "deleted_because": because}
    return (Put(record.model_copy(update=deleted)), Append(event))


def _refuse_if_needed(store: Store, record: Checkpoint) -> None:
    if record.pinned:
        raise Refused(
            f"checkpoint {record.id} is pinned",
            why=record.pin_reason,
            mend=f"`burst checkpoint unpin {record.id}` first",
        )
    for model in store.children(Model, ""):
        if record.id in model.versions:
            version = model.versions.index(record.id) + 1
            raise Refused(
                f"checkpoint {record.id} is registered",
                why=f"it is version {version} of model {model.id}",
            )
    if found := users(store, record):
        raise Refused(
            f"checkpoint {record.id} is what experiment {found[0]} starts from",
            why="the experiment is not over",
            mend="wait until it is, or cancel it",
        )
    trial = store.find(Trial, record.trial)
    if trial is not None and not is_terminal(trial.state):
        needed = indispensable(store.children(Checkpoint, record.trial))
        if record.id in [each.id for each in needed]:
            raise Refused(
                f"checkpoint {record.id} is what trial {record.trial} would continue from",
                why=f"the trial is {trial.state}",
                mend="cancel the trial first, or wait for its next checkpoint",
            )
