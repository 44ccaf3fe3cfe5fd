"""A file that is not what was written harms every checkpoint that names it."""

from __future__ import annotations

from collections.abc import Sequence

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import Damaged, FileEntry, owner_of
from burst.core.checkpoints.removal.collect import Reach
from burst.core.checkpoints.removal.delete import restorable
from burst.core.checkpoints.verify import fetch
from burst.core.errors import NotFound
from burst.core.model import Checkpoint, Event
from burst.core.store import update
from burst.core.store.port import Append, Fence, Put, Store, Write


def harmed_by(
    blobs: Blobs, store: Store, entry: FileEntry, *, tiers: Sequence[Blobs] = ()
) -> list[Checkpoint]:
    """The checkpoints that cannot be restored because of a damaged or missing file: those that are
    neither deleted nor marked yet, name it, and have no tier that holds it whole.

    The file is read once more, so that a reader's own fault does not count against them all: where
    it is whole then, the answer is empty.

    Args:
        blobs, tiers: that are open; others that outlive their node are opened by themselves.

    Raises:
        Unreachable: if store or blobs do not answer.
    """
    reach = Reach([blobs, *tiers])
    owner = store.find(Checkpoint, owner_of(entry.key)[1])
    trials = {owner_of(entry.key)[0], *(owner.lent_to if owner else ())}
    there = [each for trial in sorted(trials) for each in store.children(Checkpoint, trial)]
    naming = [record for record in restorable(there) if _names(reach, record, entry)]
    whole: dict[str, bool] = {}

    def is_lost(record: Checkpoint) -> bool:
        spaces = {space.url: space for space in (blobs, *tiers, *reach.of([record]))}
        for url, space in spaces.items():
            if url not in whole:
                whole[url] = _is_whole(space, entry)
        return not any(whole[url] for url in spaces)

    return [record for record in naming if is_lost(record)]


def mark_harmed(
    blobs: Blobs,
    store: Store,
    entry: FileEntry,
    now: float,
    *,
    tiers: Sequence[Blobs] = (),
    fence: Fence | None = None,
) -> list[Checkpoint]:
    """Mark all checkpoints that a damaged file harms (`harmed_by`), also those that were saved on
    the word of one of them meanwhile; returns them. Idempotent.

    Raises:
        Fenced: if a newer allocation owns the fence's trial.
        Unreachable: if store or blobs do not answer.
    """
    marked: list[Checkpoint] = []
    while harmed := harmed_by(blobs, store, entry, tiers=tiers):
        for record in harmed:
            text = f"{entry.key}, which it needs, is damaged or missing"
            mark_damaged(store, record.id, text, now, fence=fence)
        marked += harmed
    return marked


def mark_damaged(
    store: Store, checkpoint: str, text: str, now: float, *, fence: Fence | None = None
) -> bool:
    """Let no restore try a checkpoint again, nor any save use its files; whether it was not marked
    before. Idempotent.

    Args:
        text: what is wrong with it.
        fence: the right of the trial that found out, if a trial did.

    Raises:
        NotFound: no such checkpoint.
        Fenced: if a newer allocation owns the fence's trial.
    """

    def change(record: Checkpoint) -> Sequence[Write]:
        if record.deleted is not None or record.damaged:
            return ()
        event = Event(
            subject=record.id,
            experiment=record.experiment,
            name="checkpoint.damaged",
            text=text,
            at=now,
            data={"trial": record.trial, "batches": record.batches},
        )
        right = () if fence is None else (fence,)
        return (*right, Put(record.model_copy(update={"damaged": text})), Append(event))

    before = store.get(Checkpoint, checkpoint)
    return update(store, Checkpoint, checkpoint, change).damaged != before.damaged


def _names(reach: Reach, record: Checkpoint, entry: FileEntry) -> bool:
    manifest = reach.manifest(record)
    return manifest is not None and entry.key in {file.key for file in manifest.files}


def _is_whole(space: Blobs, entry: FileEntry) -> bool:
    try:
        fetch(space, entry)
    except (Damaged, NotFound):
        return False
    return True
