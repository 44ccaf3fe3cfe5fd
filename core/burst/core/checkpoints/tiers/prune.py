"""Holding tiers to the number of checkpoints that they may hold of a trial."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from burst.core.blobs.port import BlobInfo, Blobs
from burst.core.checkpoints.format.manifest import manifest_key, owner_of, trial_folder
from burst.core.checkpoints.removal.collect import Library, remains
from burst.core.checkpoints.removal.delete import delete, finish, restorable
from burst.core.checkpoints.removal.evict import evict
from burst.core.checkpoints.removal.lend import held_at
from burst.core.checkpoints.removal.reasons import beyond_measure
from burst.core.checkpoints.tiers.rules import outlives, surplus
from burst.core.clock import Clock
from burst.core.errors import Refused
from burst.core.launch import Tier
from burst.core.model import Checkpoint
from burst.core.store.port import Fence, Store


class Measure:
    """Holds one tier to its measure, for one trial, again and again.

    It looks at the tier once, for what others may have left there, and from then on only when
    records say that there is something to remove. Not safe from several threads.
    """

    def __init__(
        self, tier: Tier, node: str, clock: Clock, opener: Callable[[str], Blobs]
    ) -> None:
        """
        Args:
            node: the one that this process runs on.
            opener: gives the tiers, the same ones every time.
        """
        self._tier = tier
        self._clock = clock
        self._open = opener
        self._node = "" if tier.shared else node
        self._held: set[str] | None = None
        """The checkpoints whose manifests were there at the last look; None before it."""
        self._finished: set[str] | None = None
        """Deleted checkpoints of which nothing is left on this disk; None before the first."""

    def hold(self, library: Library, fence: Fence, records: Sequence[Checkpoint]) -> int:
        """Drop what the tier holds beyond its `keep`, and from a node's own disk what is deleted;
        returns the bytes freed. Idempotent.

        One that another tier outliving its node holds is taken out of this one alone. One that
        lies on this node's disk alone is deleted, unless something needs it.

        Args:
            records: the trial's, as they were just listed.

        Raises:
            Fenced: if a newer allocation owns the trial.
            Unreachable: if store or blobs did not answer; the next call looks at all again.
        """
        freed = 0
        if not self._tier.shared:
            freed += self._finish(library.store, fence.trial, records)
        if self._tier.keep is not None:
            freed += self._keep(library, fence, records)
        return freed

    def _finish(self, store: Store, trial: str, records: Sequence[Checkpoint]) -> int:
        """Of other tiers, whoever deletes removes; what it could not, the first call here does."""
        gone = {record.id for record in records if not remains(record)}
        first = self._finished is None
        if self._finished is not None and gone <= self._finished:
            return 0
        blobs = self._open(self._tier.url)
        freed = finish(store, trial, [blobs], only=not first)
        self._finished = {id for id in gone if blobs.info(manifest_key(trial, id)) is None}
        return freed

    def _keep(self, library: Library, fence: Fence, records: Sequence[Checkpoint]) -> int:
        noted = {each.id for each in records if held_at(each, self._tier.url, self._node)}
        if self._held is not None and not surplus(records, self._held | noted, self._tier):
            return 0
        blobs = self._open(self._tier.url)
        self._held, found = None, list(blobs.list(trial_folder(fence.trial)))
        held = _held(found, fence.trial)
        leaving: list[str] = []
        freed = 0
        for record in surplus(records, held, self._tier):
            if outlives(record, apart=self._tier.url):
                leaving.append(record.id)
                continue
            try:
                freed += self._delete(library.store, record, blobs)
            except Refused:
                continue  # someone needs it; then it stays beyond the measure
            held -= {record.id}
        staying = held - set(leaving)
        coming = staying | _newer(records, staying)
        freed += evict(blobs, library, fence, leaving, found=found, node=self._node, coming=coming)
        self._held = staying
        return freed

    def _delete(self, store: Store, record: Checkpoint, blobs: Blobs) -> int:
        because = beyond_measure(self._tier.url, self._tier.keep or 0)
        return delete(blobs, store, record, because=because, tiers=[blobs], clock=self._clock)


def _held(found: Iterable[BlobInfo], trial: str) -> set[str]:
    """The checkpoints whose manifests are there. That is what counts: a node may be the same
    machine under a new name, and a copy may be there that its record does not know of yet."""
    there = {blob.key for blob in found}
    owners = {owner_of(key)[1] for key in there}
    return {id for id in owners if manifest_key(trial, id) in there}


def _newer(records: Sequence[Checkpoint], staying: Collection[str]) -> set[str]:
    """Those before the last that stays: what there is of them may be on its way to the tier."""
    ordered = [record.id for record in restorable(records)]
    last = max((ordered.index(id) for id in ordered if id in staying), default=0)
    return set(ordered[:last])
