"""Which checkpoints of an experiment are kept: a pure function, Determined's rules made safe.

A checkpoint is kept if it is among the `experiment_best` by the searcher's metric, or among the
`trial_best` of its trial (both count only checkpoints at a validation), or among the
`trial_latest` of its trial. Whatever the numbers say, a pinned or protected one is kept, and so is
what a trial that is not over would continue from.

One that lies on a node's own disk alone takes the place of none that outlives nodes: it is counted
among all, and those that outlive nodes are counted once more among themselves.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from burst.core.checkpoints.removal.delete import indispensable, restorable
from burst.core.config.experiment import Keep
from burst.core.model import Checkpoint


def retained(
    checkpoints: Iterable[Checkpoint],
    keep: Keep,
    *,
    metric: str,
    smaller_is_better: bool = True,
    open_trials: Collection[str] = (),
    protected: Collection[str] = (),
) -> frozenset[str]:
    """The ids of those to keep, of all checkpoints of one experiment.

    Not-a-number ranks worst, ties go to the older one. Damaged checkpoints have no rank; deleted
    ones are left out.

    Args:
        open_trials: trials that are not over.
        protected: checkpoints of the registry, or that others start from.
    """
    there = [each for each in checkpoints if each.deleted is None]
    kept = {each.id for each in there if each.pinned or each.id in protected}
    good = [each for each in there if not each.damaged]
    validated = sorted(
        (each for each in good if metric in each.metrics),
        key=lambda each: (*_rank(each.metrics[metric], smaller_is_better), each.created, each.id),
    )
    kept |= _first(validated, keep.experiment_best)
    for trial in {each.trial for each in good}:
        latest = restorable([each for each in good if each.trial == trial])
        best = [each for each in validated if each.trial == trial]
        kept |= _first(latest, keep.trial_latest) | _first(best, keep.trial_best)
        if trial in open_trials:
            kept |= {each.id for each in indispensable(latest)}
    return frozenset(kept)


def _first(ranked: Sequence[Checkpoint], count: int) -> set[str]:
    lasting = [each for each in ranked if each.durable]
    return {each.id for each in (*ranked[:count], *lasting[:count])}


def _rank(value: float, smaller_is_better: bool) -> tuple[bool, float]:
    if math.isnan(value):
        return (True, 0.0)
    return (False, value if smaller_is_better else -value)
