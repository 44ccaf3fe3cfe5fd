"""Removing checkpoints and what is left of unfinished ones, and keeping some from removal.

The files of a checkpoint may be named by later ones of the same trial. So removal goes in three
steps: the record says `deleted`, the manifest goes, then every file in the folders of deleted
checkpoints goes that no remaining manifest names. A writer that names an older checkpoint's file
commits on the condition that its record is not deleted (`burst.harness.checkpoints.publish`), so
whichever commit comes first, either the remover sees the manifest or the writer sees the removal
and writes the file anew. Any step may be interrupted: the next removal or sweep goes on there.
"""

from __future__ import annotations

from collections.abc import Sequence

from burst.core.blobs.port import BlobInfo, Blobs
from burst.core.checkpoints.manifest import Damaged, trial_folder
from burst.core.checkpoints.verify import home, read
from burst.core.clock import Clock, SystemClock
from burst.core.errors import Refused
from burst.core.model import Checkpoint, Event, Trial
from burst.core.states import is_terminal
from burst.core.store import update
from burst.core.store.port import Append, Fence, Put, Store, Write

_SYSTEM_CLOCK = SystemClock()


def delete(blobs: Blobs, store: Store, record: Checkpoint, *, clock: Clock = _SYSTEM_CLOCK) -> int:
    """Remove a checkpoint; returns the bytes freed. Doing it again changes nothing.

    Raises:
        Refused: if it is pinned, or is what a trial that is not over would continue from.
    """
    deleted = update(store, Checkpoint, record.id, lambda found: _delete(store, found, clock))
    blobs = home(blobs, deleted)
    blobs.delete(deleted.manifest)
    return _collect(blobs, store, deleted.trial, list(blobs.list(trial_folder(deleted.trial))))


def sweep(blobs: Blobs, store: Store, fence: Fence) -> int:
    """Remove what no checkpoint of a trial needs: files of saves that were interrupted, and what
    an interrupted removal has left. Returns the bytes freed.

    Call it under the trial's newest token while no save is under way: then a folder that was there
    before the fence was checked, and has no record after, can never get one.

    Raises:
        Fenced: if a newer allocation owns the trial; nothing was removed.
    """
    there = list(blobs.list(trial_folder(fence.trial)))
    store.commit(fence)
    known = {record.id for record in store.children(Checkpoint, fence.trial)}
    orphans = [blob for blob in there if _folder_of(blob) not in known]
    freed = _remove(blobs, orphans)
    return freed + _collect(blobs, store, fence.trial, there)


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
    """The checkpoints that a trial could continue from, the one to take first coming first."""
    good = [record for record in records if record.deleted is None and not record.damaged]
    return sorted(good, key=lambda record: (record.batches, record.id), reverse=True)


def _delete(store: Store, record: Checkpoint, clock: Clock) -> Sequence[Write]:
    if record.deleted is not None:
        return ()
    if record.pinned:
        raise Refused(
            f"checkpoint {record.id} is pinned",
            why=record.pin_reason,
            mend=f"`burst checkpoint unpin {record.id}` first",
        )
    trial = store.find(Trial, record.trial)
    if trial is not None and not is_terminal(trial.state):
        newest = restorable(store.children(Checkpoint, record.trial))[:1]
        if [record.id] == [first.id for first in newest]:
            raise Refused(
                f"checkpoint {record.id} is what trial {record.trial} would continue from",
                why=f"the trial is {trial.state}",
                mend="cancel the trial first, or wait for its next checkpoint",
            )
    now = clock.now()
    event = Event(
        subject=record.id,
        experiment=record.experiment,
        name="checkpoint.deleted",
        text=f"checkpoint at batch {record.batches} deleted",
        at=now,
        data={"trial": record.trial, "batches": record.batches},
    )
    return (Put(record.model_copy(update={"deleted": now})), Append(event))


def _collect(blobs: Blobs, store: Store, trial: str, there: Sequence[BlobInfo]) -> int:
    records = store.children(Checkpoint, trial)
    deleted = {record.id for record in records if record.deleted is not None}
    candidates = [blob for blob in there if _folder_of(blob) in deleted]
    if not candidates:
        return 0
    needed: set[str] = set()
    for record in records:
        if record.deleted is None:
            try:
                needed.update(entry.key for entry in read(home(blobs, record), record).files)
            except Damaged:
                if not record.damaged:
                    return 0  # what it names is not known, so nothing can be said to be needless
    return _remove(blobs, [blob for blob in candidates if blob.key not in needed])


def _remove(blobs: Blobs, needless: Sequence[BlobInfo]) -> int:
    for blob in needless:
        blobs.delete(blob.key)
    return sum(blob.size for blob in needless)


def _folder_of(blob: BlobInfo) -> str:
    return blob.key.split("/")[2]
