"""How many nodes trials need, whatever there is of them."""

from __future__ import annotations

from burst.runner.plan.snapshot import Want


def can_ever_fit(want: Want, slots_per_node: int, max_nodes: int) -> bool:
    """Whether a pool of such nodes could run the gang, were all of them empty; it might where it
    is not known how many slots they have (0)."""
    if not slots_per_node:
        return True
    if want.slots <= slots_per_node:
        return max_nodes > 0
    nodes = gang_nodes(want, slots_per_node)
    return 0 < nodes <= max_nodes


def gang_nodes(want: Want, slots_per_node: int) -> int:
    """The nodes of a gang of several; 0 where one node would do, or several would not."""
    if not slots_per_node:
        return 0
    whole = want.slots > slots_per_node and want.slots % slots_per_node == 0
    return want.slots // slots_per_node if whole and not want.single_node else 0


class Bins:
    """Nodes as bins for trials that need one node or less. Best fit; with the largest trials first
    that is never more than 11/9 of the fewest nodes possible, and one."""

    def __init__(self, size: int, count: int) -> None:
        self._size = size
        self._free: dict[int, int] = {size: count}
        """By free slots: how many bins have so many."""

    def put(self, slots: int) -> bool:
        """Whether there was room in a bin; then it is taken."""
        room = min((free for free, n in self._free.items() if n and free >= slots), default=None)
        if room is None:
            return False
        self._free[room] -= 1
        self._free[room - slots] = self._free.get(room - slots, 0) + 1
        return True

    def open(self) -> None:
        """One more, empty."""
        self._free[self._size] = self._free.get(self._size, 0) + 1
