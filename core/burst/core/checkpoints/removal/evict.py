"""Taking checkpoints out of one of the tiers that hold them.

First the record says that the tier holds a checkpoint no more; then the files go that neither what
the tier still holds names, nor a checkpoint of a trial that files were lent to; then its manifest.
So whoever dies in between leaves a record that claims too little, never too much. A save under way
that rests on a checkpoint that leaves does not count then, and writes its files anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from burst.core.blobs.port import BlobInfo, Blobs
from burst.core.checkpoints.format.manifest import manifest_key, owner_of
from burst.core.checkpoints.removal.collect import (
    Library,
    Reach,
    in_folders,
    remains,
    remove,
)
from burst.core.checkpoints.removal.delete import indispensable, mark_deleted
from burst.core.checkpoints.removal.lend import held_at
from burst.core.checkpoints.removal.reasons import LEFT_BEHIND
from burst.core.clock import Clock
from burst.core.errors import Refused
from burst.core.model import Checkpoint, Copy
from burst.core.store import update
from burst.core.store.port import Fence, Put, Store, Write


def evict(
    space: Blobs,
    library: Library,
    fence: Fence,
    leaving: Collection[str],
    *,
    found: Sequence[BlobInfo],
    node: str = "",
    coming: Collection[str] = (),
) -> int:
    """Remove checkpoints of the fence's trial from one tier; returns the bytes freed. Idempotent,
    and once interrupted, the next call goes on there.

    One that no other tier outliving its node holds stays: `delete` is for that. So do files in
    folders of other trials.

    Args:
        found: what lies there in the trial's folder.
        node: the node on whose own disk the tier lies, if it does.
        coming: checkpoints that are being copied to the tier.

    Raises:
        Fenced: if a newer allocation owns the trial.
        Unreachable: if a tier did not answer.
    """

    def is_there(copy: Copy) -> bool:
        return (copy.url, copy.node) == (space.url, node)

    store = library.store
    for id in leaving:
        update(store, Checkpoint, id, lambda record: _drop(record, is_there, fence))
    records = store.children(Checkpoint, fence.trial)
    newest = {record.id for record in indispensable(records)[:1]}

    def stays(record: Checkpoint) -> bool:
        held = held_at(record, space.url, node) or record.id in newest or record.id in coming
        return remains(record) and held

    away = {record.id for record in records if not stays(record)}
    return _clear(space, library, in_folders(found, away), records, stays)


def abandon(
    space: Blobs,
    store: Store,
    trial: str,
    nodes: Collection[str],
    found: Sequence[BlobInfo],
    *,
    clock: Clock,
) -> int:
    """Remove from a disk of this machine what lies there of a trial that will not look for it
    (`burst.core.checkpoints.tiers.rules.is_leftover`); returns the bytes freed. Idempotent, and
    once interrupted, the next call goes on there.

    What lies on this disk alone counts as deleted, but for what is pinned or was validated, which
    is for retention to judge, and what something else needs; `finish_in` removes the rest of it.

    Args:
        nodes: those that this machine has been.
        found: what lies there in the trial's folder, as it was listed before it was decided that
            no attempt of the trial writes here.

    Raises:
        Unreachable: if a tier did not answer.
    """

    def is_there(copy: Copy) -> bool:
        return copy.url == space.url and copy.node in nodes

    manifests = {owner_of(blob.key)[1] for blob in found if blob.key.endswith("/manifest.json")}
    for record in filter(remains, store.children(Checkpoint, trial)):
        if not any(map(is_there, record.copies)):
            continue
        if record.durable:
            update(store, Checkpoint, record.id, lambda record: _drop(record, is_there))
        elif record.id in manifests and not (record.pinned or record.metrics):
            try:
                mark_deleted(store, record, LEFT_BEHIND, clock)
            except Refused:
                continue  # something needs it
    records = store.children(Checkpoint, trial)

    def stays(record: Checkpoint) -> bool:
        return remains(record) and any(map(is_there, record.copies))

    staying = {record.id for record in records if stays(record)}
    leaving = {owner_of(blob.key)[1] for blob in found} - staying
    return _clear(
        space, Library(Reach([space]), store), in_folders(found, leaving), records, stays
    )


def _clear(
    space: Blobs,
    library: Library,
    found: Sequence[BlobInfo],
    records: Sequence[Checkpoint],
    stays: Callable[[Checkpoint], bool],
) -> int:
    """Remove what of `found` nothing names that stays: files first, then manifests."""
    indexes = [blob for blob in found if blob.key.endswith("/manifest.json")]
    files = [blob for blob in found if not blob.key.endswith("/manifest.json")]
    owners = {owner_of(blob.key)[1] for blob in files}
    lent = bool(owners) and bool(records)  # what has no record was never lent
    needed = library.needed(records, owners, stays) if lent else frozenset()
    if needed is None:
        return 0
    freed = remove(space, [blob for blob in files if blob.key not in needed])
    # of one that is deleted, the manifest stays: it says what of other trials is to be removed
    deleted = {manifest_key(each.trial, each.id) for each in records if not remains(each)}
    return freed + remove(space, [blob for blob in indexes if blob.key not in deleted])


def _drop(record: Checkpoint, is_there: Callable[[Copy], bool], *right: Fence) -> Sequence[Write]:
    others = tuple(copy for copy in record.copies if not is_there(copy))
    lasting = [copy.url for copy in others if copy.durable]
    if len(others) == len(record.copies) or not lasting:
        return ()
    dropped = record.model_copy(update={"copies": others, "url": lasting[-1]})
    return (*right, Put(dropped))
