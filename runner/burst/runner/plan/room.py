"""The free slots of one pool, found in logarithmic time and given away whole."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable

from burst.core.model import Share
from burst.runner.plan.snapshot import PlanNode, Run, Want

_Group = tuple[str, int]
"""A cell, and the slots of each node: a gang of several nodes stays within one group."""


class Room:
    """Nodes by how many slots they have free. Best fit: the fullest node that still fits."""

    def __init__(self, nodes: Iterable[PlanNode], runs: Iterable[Run]) -> None:
        self._free: dict[str, list[int]] = {}
        self._group: dict[str, _Group] = {}
        for node in nodes:
            self._free[node.id] = sorted(node.slots, reverse=True)
            self._group[node.id] = (node.cell, len(node.slots))
        self._leaving: dict[str, int] = {}
        """Slots that become free once those have left who were asked to."""
        self._take_up(runs)
        self._by_free: dict[int, list[str]] = {}
        self._empty: dict[_Group, list[str]] = {}
        self.held: set[str] = set()
        """Nodes kept for a trial that does not fit yet: no other may use their slots."""
        for id in sorted(self._free):
            self._list(id)
        self._failed: set[tuple[int, bool, frozenset[str]]] = set()
        """What did not fit. Room only shrinks while a plan is made, so it will not fit later."""

    @property
    def nodes(self) -> int:
        return len(self._group)

    @property
    def free(self) -> int:
        return sum(map(len, self._free.values()))

    def place(self, want: Want) -> tuple[Share, ...] | None:
        """Slots for the whole gang, taken; None, and nothing taken, where it does not fit."""
        key = (want.slots, want.single_node, want.blocked)
        if key in self._failed:
            return None
        chosen = self._choose(want)
        if chosen is None:
            self._failed.add(key)
            return None
        per_node = want.slots // len(chosen)
        return tuple(self._take(node, per_node) for node in chosen)

    def give_back(self, shares: Iterable[Share]) -> None:
        self._failed.clear()
        for share in shares:
            if share.node in self._free:
                merged = sorted({*self._free[share.node], *share.slots}, reverse=True)
                self._set(share.node, merged)

    def could_ever(self, want: Want) -> bool:
        """Whether the gang would fit if all these nodes were empty."""
        return bool(self.nearest(want))

    def hold(self, nodes: Iterable[str]) -> None:
        """Keep `nodes` for one trial: whatever is placed afterwards leaves their slots alone."""
        for id in nodes:
            if id not in self.held:
                self._unlist(id)
                self.held.add(id)

    def nearest(self, want: Want) -> tuple[str, ...]:
        """The nodes on which `want` waits for the fewest slots; empty where all of them together
        would never do.

        Held for it, they make that number never grow through backfill. There are no estimates of
        run times to do better with.
        """
        usable = [id for id in self._group if id not in want.blocked]
        single = [id for id in usable if self._size(id) >= want.slots]
        if single:
            return (min(single, key=lambda id: (want.slots - len(self._free[id]), id)),)
        if want.slots <= 1 or want.single_node:
            return ()
        groups: dict[_Group, list[str]] = {}
        for id in usable:
            groups.setdefault(self._group[id], []).append(id)
        best: tuple[tuple[int, int, str], tuple[str, ...]] | None = None
        for (cell, size), ids in groups.items():
            if not size or want.slots % size or len(ids) < want.slots // size:
                continue
            chosen = tuple(sorted(ids, key=self._lacking)[: want.slots // size])
            rank = (sum(self._lacking(id)[0] for id in chosen), -size, cell)
            if best is None or rank < best[0]:
                best = (rank, chosen)
        return best[1] if best else ()

    def emptiest(self, count: int, size: int) -> tuple[str, ...]:
        """The nodes of `size` slots that are nearest to being empty, of whatever cell."""
        ids = [id for id in self._group if self._size(id) == size and id not in self.held]
        return tuple(sorted(ids, key=self._lacking)[:count])

    def beginning(
        self, size: int, most: int, usable: Callable[[str], bool], cell: str = ""
    ) -> tuple[str, ...]:
        """What a gang of whole nodes could begin with: up to `most` nodes of one cell that are
        empty, or will be once those have left who were asked to.

        Args:
            cell: only of this one; of any if empty.
        """
        groups: dict[str, list[str]] = {}
        for (there, slots), ids in self._empty.items():
            if slots == size:
                groups[there] = [id for id in ids if usable(id)]
        for id, slots in self._leaving.items():
            there, whole = self._group[id]
            empties = len(self._free[id]) + slots == whole == size
            if empties and id not in self.held and usable(id):
                groups.setdefault(there, []).append(id)
        if cell:
            return tuple(sorted(groups.get(cell, ()))[:most])
        best = min(sorted(groups), key=lambda each: -len(groups[each]), default=None)
        return () if best is None else tuple(sorted(groups[best])[:most])

    def _take_up(self, runs: Iterable[Run]) -> None:
        for run in runs:
            for share in run.shares:
                if share.node in self._free:
                    taken = set(share.slots)
                    kept = [slot for slot in self._free[share.node] if slot not in taken]
                    if run.leaving:
                        gone = len(self._free[share.node]) - len(kept)
                        self._leaving[share.node] = self._leaving.get(share.node, 0) + gone
                    self._free[share.node] = kept

    def _choose(self, want: Want) -> tuple[str, ...] | None:
        for free in sorted(size for size, ids in self._by_free.items() if ids):
            if free >= want.slots:
                node = next((id for id in self._by_free[free] if id not in want.blocked), None)
                if node is not None:
                    return (node,)
        if want.slots == 0:
            # It takes nothing away, so it may ride along where others may not.
            node = min((id for id in self.held if id not in want.blocked), default=None)
            return None if node is None else (node,)
        if want.slots == 1 or want.single_node:
            return None
        return self._whole(want.slots, want.blocked)

    def _whole(self, slots: int, without: Collection[str]) -> tuple[str, ...] | None:
        """Empty nodes of one cell and one size that divides the gang: the largest such size, and
        then the cell with the fewest."""
        best: tuple[tuple[int, int, str], list[str]] | None = None
        for (cell, size), ids in self._empty.items():
            if not size or slots % size or len(ids) < slots // size:
                continue
            usable = [id for id in ids if id not in without] if without else ids
            rank = (-size, len(usable), cell)
            if len(usable) >= slots // size and (best is None or rank < best[0]):
                best = (rank, usable)
        return None if best is None else tuple(best[1][: slots // -best[0][0]])

    def _size(self, id: str) -> int:
        return self._group[id][1]

    def _lacking(self, id: str) -> tuple[int, str]:
        return (self._size(id) - len(self._free[id]), id)

    def _take(self, node: str, count: int) -> Share:
        free = self._free[node]
        taken = tuple(free[len(free) - count :][::-1])
        self._set(node, free[: len(free) - count])
        return Share(node=node, slots=taken)

    def _set(self, node: str, free: list[int]) -> None:
        if node in self.held:
            self._free[node] = free
            return
        self._unlist(node)
        self._free[node] = free
        self._list(node)

    def _list(self, node: str) -> None:
        free = len(self._free[node])
        insort(self._by_free.setdefault(free, []), node)
        if free == self._size(node):
            insort(self._empty.setdefault(self._group[node], []), node)

    def _unlist(self, node: str) -> None:
        free = len(self._free[node])
        _drop(self._by_free[free], node)
        if free == self._size(node):
            _drop(self._empty[self._group[node]], node)


def _drop(ids: list[str], id: str) -> None:
    del ids[bisect_left(ids, id)]
