"""Which nodes leave for want of work."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from burst.runner.plan.snapshot import PlanNode, PlanPool


def unused(
    pool: PlanPool,
    nodes: Sequence[PlanNode],
    busy: Collection[str],
    kept: Collection[str],
    now: float,
) -> tuple[list[str], list[float]]:
    """The nodes that leave now, the longest idle first, and the dates at which others will.

    Args:
        nodes: those of the pool that may take work.
        busy: nodes with work, or with some that begins.
        kept: idle ones that a trial waits for.
    """
    drains: list[str] = []
    later: list[float] = []
    spare = len(nodes) - pool.min_nodes
    if pool.idle is None or spare <= 0:
        return drains, later
    idle = [(node.idle_since, node.id) for node in nodes if node.idle_since is not None]
    for since, id in sorted(idle):
        if id in busy or id in kept:
            continue
        if since + pool.idle > now:
            later.append(since + pool.idle)
        elif len(drains) < spare:
            drains.append(id)
    return drains, later
