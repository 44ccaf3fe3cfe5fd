"""What an experiment's slots have cost, from the prices of the nodes that they were on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from burst.core.model import Allocation, Node

_HOUR_S = 3600.0


@dataclass(frozen=True)
class Cost:
    """What allocations held, from when they were given until they ended."""

    seconds: float = 0.0
    """Node-seconds: of a node of which half the slots were held, half of the time."""
    unpriced: float = 0.0
    """Those of nodes of which no price is known, as those of one's own."""
    usd: float | None = None
    """What the others cost; None where there are none."""

    @property
    def hours(self) -> float:
        return self.seconds / _HOUR_S

    @property
    def unpriced_hours(self) -> float:
        return self.unpriced / _HOUR_S


def cost_of(allocations: Iterable[Allocation], nodes: Mapping[str, Node], now: float) -> Cost:
    """What they cost so far. The time in which a node booted, or had no work, is not in it.

    Args:
        nodes: by id; one that is missing has no known price.
    """
    seconds = unpriced = 0.0
    usd: float | None = None
    for allocation in allocations:
        end = now if allocation.ended is None else allocation.ended
        length = max(0.0, end - allocation.created)
        for share in allocation.shares:
            node = nodes.get(share.node)
            held = length * _fraction(len(share.slots), node)
            seconds += held
            if node is None or node.price is None:
                unpriced += held
            else:
                usd = (usd or 0.0) + held * node.price / _HOUR_S
    return Cost(seconds, unpriced, usd)


def _fraction(slots: int, node: Node | None) -> float:
    """How much of its node a share holds; all of it where the node is not known."""
    size = (len(node.slots) or node.expected_slots) if node is not None else 0
    return min(1.0, slots / size) if size else 1.0
