"""Holding a tier to the number of checkpoints that it may hold of a trial."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import manifest_key, owner_of, trial_folder
from burst.core.checkpoints.removal.delete import delete, restorable
from burst.core.checkpoints.removal.evict import evict
from burst.core.checkpoints.tiers.rules import outlives, surplus
from burst.core.clock import Clock
from burst.core.errors import Refused
from burst.core.launch import Tier
from burst.core.model import Checkpoint
from burst.core.store.port import Fence, Store


def hold_to_measure(
    tier: Tier, blobs: Blobs, store: Store, fence: Fence, clock: Clock, *, node: str = ""
) -> int:
    """Drop what `tier` holds beyond its `keep`; returns the bytes freed. Idempotent.

    One that another tier outliving its node holds is taken out of this one alone. One that lies on
    this node's disk alone is deleted, unless something needs it.

    Args:
        node: on whose disk the tier lies; empty if it outlives nodes.

    Raises:
        Fenced: if a newer allocation owns the trial.
        Unreachable: if store or blobs did not answer.
    """
    records = store.children(Checkpoint, fence.trial)
    held = _held(blobs, fence.trial)
    leaving: list[str] = []
    freed = 0
    for record in surplus(records, held, tier):
        if outlives(record, apart=tier.url):
            leaving.append(record.id)
            continue
        try:
            freed += delete(blobs, store, record, tiers=[blobs], clock=clock)
        except Refused:
            continue  # someone needs it; then it stays beyond the measure
        held -= {record.id}
    staying = held - set(leaving)
    return freed + evict(
        blobs, store, fence, leaving, node=node, coming=staying | _newer(records, staying)
    )


def _held(blobs: Blobs, trial: str) -> set[str]:
    """The checkpoints whose manifests are there. That is what counts: a node may be the same
    machine under a new name, and a copy may be there that its record does not know of yet."""
    there = {blob.key for blob in blobs.list(trial_folder(trial))}
    owners = {owner_of(key)[1] for key in there}
    return {id for id in owners if manifest_key(trial, id) in there}


def _newer(records: Sequence[Checkpoint], staying: Collection[str]) -> set[str]:
    """Those before the last that stays: what there is of them may be on its way to the tier."""
    ordered = [record.id for record in restorable(records)]
    last = max((ordered.index(id) for id in ordered if id in staying), default=0)
    return set(ordered[:last])
