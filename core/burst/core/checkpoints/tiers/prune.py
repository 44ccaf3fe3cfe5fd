"""Holding tiers to the number of checkpoints that they may hold of a trial."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from burst.core.blobs.port import BlobInfo, Blobs
from burst.core.checkpoints.format.manifest import manifest_key, owner_of, trial_folder
from burst.core.checkpoints.removal.collect import Library, remains
from burst.core.checkpoints.removal.delete import finish_in, mark_deleted, restorable
from burst.core.checkpoints.removal.evict import evict
from burst.core.checkpoints.removal.lend import held_at
from burst.core.checkpoints.removal.reasons import beyond_measure
from burst.core.checkpoints.tiers.rules import outlives, surplus
from burst.core.clock import Clock
from burst.core.errors import Refused
from burst.core.launch import Tier
from burst.core.model import Checkpoint
from burst.core.store.port import Fence


class Measure:
    """Holds one tier to its measure, for one trial, again and again.

    It looks at the tier once, for what others may have left there, and from then on only when
    records say that there is something to remove. Not safe from several threads.
    """

    def __init__(
        self,
        tier: Tier,
        node: str,
        clock: Clock,
        opener: Callable[[str], Blobs],
        *,
        finishes: bool,
    ) -> None:
        """
        Args:
            node: the one that this process runs on.
            opener: gives the tiers, the same ones every time.
            finishes: whether what others have deleted may be for this node to remove.
        """
        self._finishes = finishes
        self._tier = tier
        self._clock = clock
        self._open = opener
        self._node = "" if tier.shared else node
        self._held: set[str] | None = None
        """The checkpoints whose manifests were there at the last look; None before it."""
        self._finished: set[str] | None = None
        """Deleted checkpoints of which nothing is left there; None before the first look."""

    def hold(self, library: Library, fence: Fence, records: Sequence[Checkpoint]) -> int:
        """Remove what is deleted, and drop what the tier holds beyond its `keep`; returns the
        bytes freed. Idempotent.

        One that another tier outliving its node holds is taken out of this one alone. One that
        lies on this node's disk alone is deleted, unless something needs it.

        Args:
            records: the trial's, as they were just listed.

        Raises:
            Fenced: if a newer allocation owns the trial.
            Unreachable: if store or blobs did not answer; the next call looks at all again.
        """
        freed = 0
        if self._finishes:
            freed += self._finish(library, fence.trial, records)
        if self._tier.keep is not None:
            freed += self._keep(library, fence, records)
        return freed

    def _finish(self, library: Library, trial: str, records: Sequence[Checkpoint]) -> int:
        """Remove what is deleted. Who deletes does so, but cannot tell what is needed while one
        that is needed lies on this node's disk alone, nor reach that disk."""
        gone = {record.id for record in records if not remains(record)}
        here = {each.id for each in records if held_at(each, self._tier.url, self._node)}
        if self._finished is not None and not (gone - self._finished) & here:
            return 0
        blobs = self._open(self._tier.url)

        def left(ids: Collection[str]) -> set[str]:
            return {id for id in ids if blobs.info(manifest_key(trial, id)) is not None}

        freed = 0
        if gone and (self._finished is None or left((gone - self._finished) & here)):
            freed = finish_in(blobs, library, trial)
        self._finished = gone - left(gone & here - (self._finished or set()))
        return freed

    def _keep(self, library: Library, fence: Fence, records: Sequence[Checkpoint]) -> int:
        noted = {each.id for each in records if held_at(each, self._tier.url, self._node)}
        if self._held is not None and not surplus(records, self._held | noted, self._tier):
            return 0
        blobs = self._open(self._tier.url)
        self._held, found = None, list(blobs.list(trial_folder(fence.trial)))
        held = _held(found, fence.trial)
        because = beyond_measure(self._tier.url, self._tier.keep or 0)
        leaving: list[str] = []
        freed = 0
        for record in surplus(records, held, self._tier):
            if outlives(record, apart=self._tier.url):
                leaving.append(record.id)
                continue
            try:
                mark_deleted(library.store, record, because, self._clock)
            except Refused:
                continue  # someone needs it; then it stays beyond the measure
            freed += finish_in(blobs, library, fence.trial)
            held -= {record.id}
        staying = held - set(leaving)
        coming = staying | _newer(records, staying)
        freed += evict(blobs, library, fence, leaving, found=found, node=self._node, coming=coming)
        self._held = staying
        return freed


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
