"""The free slots of one pool, found in logarithmic time and given away whole."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable

from burst.core.model import Share
from burst.runner.plan.snapshot import PlanNode, Run, Want

_NONE: frozenset[str] = frozenset()


class Room:
    """Nodes by how many slots they have free. Best fit: the fullest node that still fits."""

    def __init__(self, nodes: Iterable[PlanNode], runs: Iterable[Run]) -> None:
        self._free: dict[str, list[int]] = {n.id: sorted(n.slots, reverse=True) for n in nodes}
        self._size = {id: len(slots) for id, slots in self._free.items()}
        for run in runs:
            for share in run.shares:
                if share.node in self._free:
                    taken = set(share.slots)
                    kept = [slot for slot in self._free[share.node] if slot not in taken]
                    self._free[share.node] = kept
        self._by_free: dict[int, list[str]] = {}
        for id in sorted(self._free):
            self._by_free.setdefault(len(self._free[id]), []).append(id)
        self.held: frozenset[str] = _NONE
        """Nodes kept for the first trial that does not fit: no other may use them."""
        self._failed: set[tuple[int, bool, frozenset[str]]] = set()
        """What did not fit. Room only shrinks while a plan is made, so it will not fit later."""

    @property
    def nodes(self) -> int:
        return len(self._size)

    @property
    def free(self) -> int:
        return sum(free * len(ids) for free, ids in self._by_free.items())

    def place(self, want: Want) -> tuple[Share, ...] | None:
        """Slots for the whole gang, taken; None, and nothing taken, where it does not fit."""
        key = (want.slots, want.single_node, want.blocked)
        if key in self._failed:
            return None
        held = self.held if want.slots else _NONE
        chosen = self._choose(want, want.blocked | held if held else want.blocked)
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
        return bool(self._candidates(want))

    def hold_for(self, want: Want) -> None:
        """Keep the nodes on which `want` waits for the fewest slots to become free.

        Whatever is placed afterwards leaves them alone, so the number of slots that `want` waits
        for never grows through backfill. There are no estimates of run times to do better with.
        """
        self.held = frozenset(self._candidates(want))

    def _choose(self, want: Want, without: Collection[str]) -> tuple[str, ...] | None:
        for free in sorted(size for size, ids in self._by_free.items() if ids):
            if free >= want.slots:
                node = next((id for id in self._by_free[free] if id not in without), None)
                if node is not None:
                    return (node,)
        if want.slots <= 1 or want.single_node:
            return None
        return self._whole(want.slots, self._by_free.items(), without)

    def _whole(
        self, slots: int, groups: Iterable[tuple[int, list[str]]], without: Collection[str]
    ) -> tuple[str, ...] | None:
        """Empty nodes of one size that divides the gang, the largest such size first."""
        for size, ids in sorted(groups, reverse=True):
            if not size or slots % size or len(ids) < slots // size:
                continue
            empty = [id for id in ids if self._size[id] == size and id not in without]
            if len(empty) >= slots // size:
                return tuple(empty[: slots // size])
        return None

    def _candidates(self, want: Want) -> tuple[str, ...]:
        """The nodes nearest to fitting `want`; empty where all of them together never would."""
        usable = [id for id in self._size if id not in want.blocked]
        single = [id for id in usable if self._size[id] >= want.slots]
        if single:
            return (min(single, key=lambda id: (want.slots - len(self._free[id]), id)),)
        if want.slots <= 1 or want.single_node:
            return ()
        best: tuple[int, int, tuple[str, ...]] | None = None
        groups: dict[int, list[str]] = {}
        for id in usable:
            groups.setdefault(self._size[id], []).append(id)
        for size, ids in groups.items():
            if not size or want.slots % size or len(ids) < want.slots // size:
                continue
            ranked = sorted(ids, key=lambda id: (size - len(self._free[id]), id))
            chosen = tuple(ranked[: want.slots // size])
            missing = sum(size - len(self._free[id]) for id in chosen)
            if best is None or (missing, -size) < best[:2]:
                best = (missing, -size, chosen)
        return best[2] if best else ()

    def _take(self, node: str, count: int) -> Share:
        free = self._free[node]
        taken = tuple(free.pop() for _ in range(count))
        self._set(node, free, before=len(free) + count)
        return Share(node=node, slots=taken)

    def _set(self, node: str, free: list[int], before: int | None = None) -> None:
        old = self._by_free[len(self._free[node]) if before is None else before]
        del old[bisect_left(old, node)]
        self._free[node] = free
        insort(self._by_free.setdefault(len(free), []), node)
