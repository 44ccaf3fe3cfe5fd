"""Decisions about tiers: what goes where, what is tried first, what is dropped. All pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from burst.core.checkpoints.removal.delete import restorable
from burst.core.launch import Tier
from burst.core.model import Allocation, Checkpoint, Lengths

_HAIR = 1e-9  # epochs are fractions, and 0.1 * 3 is not 0.3


def is_due(tier: Tier, done: Lengths, copied: Lengths | None, *, forced: bool = False) -> bool:
    """Whether the checkpoint at `done` is to be copied to `tier`.

    Args:
        copied: how far the newest checkpoint was that is known to be there; None is none.
        forced: whether it must outlive the node whatever `tier.every` says.
    """
    if forced and tier.shared:
        return True
    if tier.every is None or copied is None:
        return True
    unit = str(tier.every.unit)
    passed = float(getattr(done, unit)) - float(getattr(copied, unit))
    return passed >= tier.every.amount * (1 - _HAIR)


def candidates(
    records: Sequence[Checkpoint], attempts: Sequence[Allocation] = ()
) -> list[Checkpoint]:
    """What a trial could continue from, the one to try first coming first (`restorable`).

    What an attempt has left behind by continuing from something older comes last, also if it ended
    before it saved: its metrics have replaced what was reported beyond that.

    Args:
        attempts: the trial's allocations, which know what they continued from.
    """
    bases = [(each.attempt, each.restored_batches) for each in attempts if each.restored_from]

    def is_left_behind(record: Checkpoint) -> bool:
        return any(attempt > record.attempt and at < record.batches for attempt, at in bases)

    return sorted(restorable(records), key=is_left_behind)


def outlives(record: Checkpoint, *, apart: str) -> bool:
    """Whether a tier other than the one at `apart` holds it that outlives its node."""
    return any(copy.durable and copy.url != apart for copy in record.copies)


def surplus(records: Sequence[Checkpoint], held: Collection[str], tier: Tier) -> list[Checkpoint]:
    """The checkpoints that `tier` need not hold any more, given what one trial has.

    Beyond the newest `tier.keep` it still keeps: the only durable copy of one; and, of those that
    no other place holds, what is pinned or was validated, since retention may keep it as the best.
    Damaged and deleted ones are not counted, and not surplus: others remove them.

    Args:
        held: ids of the checkpoints whose manifests are in `tier`.
    """
    if tier.keep is None:
        return []
    there = [record for record in restorable(records) if record.id in held]
    return [record for record in there[tier.keep :] if _is_dispensable(record, tier)]


def _is_dispensable(record: Checkpoint, tier: Tier) -> bool:
    if outlives(record, apart=tier.url):
        return True
    return not (tier.shared or record.pinned or record.metrics or record.durable)


def is_leftover(over: bool, records: Sequence[Checkpoint], held: Collection[str]) -> bool:
    """Whether a node that does not run a trial may drop what its own disk holds of it.

    Never the only copy of the newest checkpoint. Else, of a trial that is over, everything; of
    another, what it has left behind by continuing elsewhere, for it may come back to the rest.

    Args:
        over: whether the trial is in a terminal state.
        records: all checkpoints of the trial.
        held: ids of those whose manifests are on the disk.
    """
    good = restorable(records)
    here = next((record for record in good if record.id in held), None)
    if here is None:
        return True
    safe = any(each.durable and each.batches >= here.batches for each in good)
    return safe and (over or good[0].id not in held)
