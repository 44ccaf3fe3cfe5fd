"""Taking checkpoints out of one of the tiers that hold them, to keep the tier within bounds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import manifest_key, owner_of
from burst.core.checkpoints.removal.collect import Library, Reach, lying, remains, remove
from burst.core.checkpoints.removal.delete import indispensable
from burst.core.checkpoints.removal.lend import held_at
from burst.core.model import Checkpoint
from burst.core.store import update
from burst.core.store.port import Fence, Put, Store, Write


def evict(
    space: Blobs,
    store: Store,
    fence: Fence,
    leaving: Collection[str],
    *,
    node: str = "",
    coming: Collection[str] = (),
    tiers: Sequence[Blobs] = (),
) -> int:
    """Remove checkpoints of the fence's trial from one tier; returns the bytes freed. Idempotent,
    and once interrupted, the next call goes on there.

    One that no other tier outliving its node holds stays: `delete` is for that. First the record
    says that the tier holds it no more; then the files go that neither what the tier still holds
    names, nor a checkpoint of a trial that files were lent to; then its manifest. Files in folders
    of other trials stay. A save under way that rests on one that leaves does not count then, and
    writes its files anew.

    Args:
        node: the node on whose own disk the tier lies, if it does.
        coming: checkpoints that are being copied to the tier.
        tiers: others that are open, to read manifests from.

    Raises:
        Fenced: if a newer allocation owns the trial.
        Unreachable: if a tier did not answer.
    """
    for id in leaving:
        update(store, Checkpoint, id, lambda record: _drop(fence, record, space.url, node))
    records = store.children(Checkpoint, fence.trial)
    newest = {record.id for record in indispensable(records)[:1]}

    def stays(record: Checkpoint) -> bool:
        held = held_at(record, space.url, node) or record.id in newest or record.id in coming
        return remains(record) and held

    away = {record.id for record in records if not stays(record)}
    found = lying(space, fence.trial, away)
    indexes = {manifest_key(fence.trial, id) for id in away}
    files = [blob for blob in found if blob.key not in indexes]
    owners = {owner_of(blob.key)[1] for blob in files}
    library = Library(Reach([space, *tiers]), store)
    needed = library.needed(records, owners, stays) if owners else frozenset()
    if needed is None:
        return 0
    freed = remove(space, [blob for blob in files if blob.key not in needed])
    # of one that is deleted, the manifest stays: it says what of other trials is to be removed
    done = {manifest_key(fence.trial, each.id) for each in records if remains(each)} & indexes
    return freed + remove(space, [blob for blob in found if blob.key in done])


def _drop(fence: Fence, record: Checkpoint, url: str, node: str) -> Sequence[Write]:
    others = tuple(copy for copy in record.copies if (copy.url, copy.node) != (url, node))
    lasting = [copy.url for copy in others if copy.durable]
    if len(others) == len(record.copies) or not lasting:
        return ()
    dropped = record.model_copy(update={"copies": others, "url": lasting[-1]})
    return (fence, Put(dropped))
