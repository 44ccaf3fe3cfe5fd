"""How many more nodes a pool should have for the trials that do not fit."""

from __future__ import annotations

from collections.abc import Sequence

from burst.runner.plan.snapshot import PlanPool, Want


def can_ever_fit(want: Want, slots_per_node: int, max_nodes: int) -> bool:
    """Whether a pool of such nodes could run the gang, were all of them empty."""
    if want.slots <= slots_per_node:
        return max_nodes > 0
    whole = want.slots % slots_per_node == 0 and not want.single_node
    return whole and want.slots // slots_per_node <= max_nodes


def nodes_needed(wants: Sequence[Want], slots_per_node: int) -> int:
    """Nodes for `wants`, packed first-fit with the largest first; gangs take whole nodes."""
    whole, left = 0, []
    for want in wants:
        nodes, rest = divmod(want.slots, slots_per_node)
        whole += nodes
        if rest:
            left.append(rest)
    bins: dict[int, int] = {}
    opened = 0
    for slots in sorted(left, reverse=True):
        room = min((free for free, count in bins.items() if count and free >= slots), default=0)
        if room:
            bins[room] -= 1
        else:
            opened, room = opened + 1, slots_per_node
        bins[room - slots] = bins.get(room - slots, 0) + 1
    # Trials without slots ride along on any node.
    return max(whole + opened, 1 if wants else 0)


def to_launch(pool: PlanPool, wants: Sequence[Want], now: float) -> int:
    """Nodes to ask for now: what is needed, less what is coming, within the pool's limit."""
    if not pool.launches or (pool.retry_at is not None and now < pool.retry_at):
        return 0
    missing = nodes_needed(wants, pool.slots_per_node) - pool.coming
    return max(0, min(missing, pool.max_nodes - pool.nodes))
