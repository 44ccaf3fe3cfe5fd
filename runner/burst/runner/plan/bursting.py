"""When each of a trial's pools opens to it: the first at once, each further one after a wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from burst.runner.plan.snapshot import PlanPool, Want


class Opening(NamedTuple):
    pool: str
    at: float
    """From then on the trial may start, and nodes may be asked for it, in this pool."""


def openings(
    want: Want, pools: Sequence[PlanPool], hopeless: Callable[[PlanPool, float], bool]
) -> tuple[Opening, ...]:
    """The dates at which `pools` open to the trial, in its own order.

    Each is waited for during `burst_after`, but for one of which nothing can come in that time.

    Args:
        hopeless: whether a pool can give the trial nothing until the date.
    """
    at = want.queued
    found = [Opening(pool.name, at) for pool in pools[:1]]
    for before, pool in pairwise(pools):
        then = at + want.burst_after
        if not hopeless(before, then):
            at = then
        found.append(Opening(pool.name, at))
    return tuple(found)


def is_dry(pool: PlanPool, ready: int, until: float) -> bool:
    """Whether the pool has no node that trains, and none can come until the date.

    A pool that said no is dry from when it said so: the date of its next try counts and not the
    present, or the pool behind it would close again at that moment.
    """
    if pool.stopped:
        return True
    if ready or pool.coming:
        return False
    if pool.misfit:
        return True
    full = pool.slots_per_node > 0 and pool.nodes >= pool.max_nodes
    unfit = full and bool(pool.trouble)
    if not pool.launches or unfit:
        return True
    return pool.retry_at is not None and pool.retry_at >= until
