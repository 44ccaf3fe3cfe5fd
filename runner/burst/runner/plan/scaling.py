"""Which nodes are asked for, from what does not fit.

What is in flight counts first: a request that is wanted whole serves one gang of its size, other
nodes serve trials of one node or less, which are packed with the largest first. Only what is left
is asked for, in the first of a trial's open pools that can be asked. So a plan that was carried
out asks for nothing again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from burst.runner.plan.bursting import Opening
from burst.runner.plan.demand import Bins, gang_nodes
from burst.runner.plan.room import Room
from burst.runner.plan.snapshot import Launch, PlanNode, PlanPool, Want

_LONGEST_BATCH = 10
"""A batch is closed after so many times `quiet`, however fast trials arrive."""


@dataclass(slots=True)
class Unmet:
    """A trial that does not fit, and where nodes come for it."""

    want: Want
    opens: tuple[Opening, ...]
    """The pools that are open to it, in its order."""
    heads: Collection[str] = ()
    """The pools of which it is the head."""
    served: tuple[str, ...] = ()
    """The pools of which nodes are in flight, or asked for, for it."""

    def looks_on(self, now: float) -> Sequence[Opening]:
        """The pools in which nodes may be asked for it: behind one that serves it already only if
        that one was given as long again."""
        if not self.served:
            return self.opens
        for index, opening in enumerate(self.opens):
            if opening.pool in self.served:
                further = self.opens[index + 1 :]
                due = self.due_again(index)
                taken = any(each.pool in self.served for each in further)
                return () if due is None or now < due or taken else further
        return self.opens

    def due_again(self, index: int) -> float | None:
        """From when on what is in flight in one pool does not keep from asking the next one."""
        if index + 1 >= len(self.opens):
            return None
        return self.opens[index + 1].at + self.want.burst_after


class Asking:
    """What is asked of one pool."""

    def __init__(self, pool: PlanPool, room: Room, nodes: Sequence[PlanNode], now: float) -> None:
        self.pool = pool
        self.kept: set[str] = set()
        """What is left of gangs, where the missing nodes are in flight or asked for."""
        self.dates: list[float] = []
        """When they are kept no longer."""
        self.due: float | None = None
        """When the batch that waits now is closed."""
        self._now = now
        self._room = room
        self._nodes = {node.id: node for node in nodes}
        refused = pool.retry_at is not None and now < pool.retry_at
        self.can = pool.launches and not pool.stopped and not refused
        self._left = max(0, pool.max_nodes - pool.nodes) if self.can else 0
        self._plannable = self._free = self._left
        """Of `_left`, what no gang has yet come for, and what none has been given."""
        cells = (*pool.coming_cells, *[""] * len(pool.coming_whole))
        self._whole = list(zip(pool.coming_whole, cells, strict=False))
        self._single = max(0, pool.coming - sum(pool.coming_whole))
        self._bins = Bins(pool.slots_per_node, self._single)
        self._gangs: dict[str, Launch] = {}
        self._asked: list[Launch] = []
        self._ahead = 0
        self._limit: int | None = None
        self._oldest, self._newest = now, -math.inf
        self._opened = 0

    def begin(self, want: Want) -> bool:
        """Whether nodes for the whole gang are in flight; what is left of it keeps its place."""
        nodes, size = gang_nodes(want, self.pool.slots_per_node), self.pool.slots_per_node
        for request in self._whole:
            count, cell = request
            if not 0 < count < nodes:
                continue
            left = self._room.beginning(
                size, nodes - count, lambda id: id not in want.blocked, cell
            )
            if len(left) == nodes - count:
                self._whole.remove(request)
                self._room.hold(left)
                self.kept.update(left)
                return True
        full = next((each for each in self._whole if each[0] == nodes), None)
        if full is not None:
            self._whole.remove(full)
        return full is not None

    def plan_gang(self, want: Want, *, first: bool) -> bool:
        """Work out the request for the gang: for what is missing beside what is left of it, or
        else for all of its nodes. Whether it could be made.

        Args:
            first: whether what is left of it is kept, which is so in one pool at a time.
        """
        if not self.can:
            return False
        nodes = gang_nodes(want, self.pool.slots_per_node)
        launch = Launch(self.pool.name, nodes, whole=True)
        if first and self._plannable:
            left = self._lasting(want, nodes - 1)
            if left and nodes - len(left) <= self._plannable:
                self._room.hold(left)
                self.kept.update(left)
                self.dates += [at for id in left if (at := self._lasts(id, want)) < math.inf]
                launch = Launch(self.pool.name, nodes - len(left), True, left[0])
        self._gangs[want.trial] = launch
        self._plannable = max(0, self._plannable - launch.count)
        return launch.count <= self._left

    def make_way(self, want: Want) -> None:
        """No cell has room for the gang, and no more nodes may be asked for: those nearest to
        being empty take nothing more, so that they leave and others come in their place."""
        lacking = gang_nodes(want, self.pool.slots_per_node) - self._left
        if self.can and 0 < lacking <= self.pool.max_nodes:
            self._room.hold(self._room.emptiest(lacking, self.pool.slots_per_node))

    def stand_behind(self, want: Want) -> None:
        """Count a trial of one node or less, before any gang that comes after it is asked for."""
        self._ahead += want.slots

    def ask_gang(self, want: Want) -> bool:
        """Whether nodes for the gang are asked for; what stands behind it asks for none that it
        is short of."""
        launch = self._gangs.get(want.trial)
        ahead = max(0, -(-self._ahead // self.pool.slots_per_node) - self._single)
        if launch is None:
            return False
        if launch.count > self._free - ahead:
            self._limit = ahead if self._limit is None else self._limit
            return False
        self._asked.append(launch)
        self._free -= launch.count
        return True

    def may_have(self, want: Want) -> bool:
        """Whether a node for a trial of one node or less is on its way, or may be asked for."""
        return want.slots <= self.pool.slots_per_node and bool(self.pool.coming or self._left)

    def release_whole(self) -> None:
        """Whole requests in flight that no gang waits for will serve others."""
        for _ in range(sum(count for count, _ in self._whole)):
            self._bins.open()
        self._whole.clear()

    def in_flight(self, want: Want) -> bool:
        """Whether a node in flight, or asked for already, has room for it; then it is taken."""
        rides = want.slots == 0 and bool(self.pool.coming or self._asked)
        return rides or (want.slots <= self.pool.slots_per_node and self._bins.put(want.slots))

    def ask_single(self, want: Want, arrival: float) -> bool:
        """Whether a node of its own is asked for it, in which others may have room too."""
        most = self._free if self._limit is None else min(self._free, self._limit)
        if want.slots > self.pool.slots_per_node or self._opened >= most:
            return False
        self._bins.open()
        self._opened += 1
        self._oldest = min(self._oldest, arrival)
        self.join(arrival)
        return self._bins.put(want.slots)

    def join(self, arrival: float) -> None:
        """Count an arrival to the batch that is being made, if one is."""
        if self._opened:
            self._newest = max(self._newest, arrival)

    def launches(self) -> list[Launch]:
        """The requests for gangs, in the queue's order, and one for all others."""
        count = self._opened
        if count and self.pool.quiet > 0:
            quiet = self.pool.quiet
            due = min(self._newest + quiet, self._oldest + _LONGEST_BATCH * quiet)
            if self._now < due:
                self.due, count = due, 0
        there = len(self._nodes) + self.pool.coming + self._left - self._free
        count += max(0, min(self.pool.min_nodes - there - count, self._free - self._opened))
        return [*self._asked, *([Launch(self.pool.name, count)] if count else [])]

    def _lasting(self, want: Want, most: int) -> tuple[str, ...]:
        return self._room.beginning(
            self.pool.slots_per_node,
            most,
            lambda id: id not in want.blocked and self._now < self._lasts(id, want),
        )

    def _lasts(self, id: str, want: Want) -> float:
        """Until when a node without work is kept for a gang that it could be part of."""
        idle = self._nodes[id].idle_since
        stays = len(self._nodes) <= self.pool.min_nodes
        if idle is None or self.pool.idle is None or stays:
            return math.inf
        return max(idle, want.queued) + self.pool.idle


class Scaling:
    """What is asked of all pools. Gangs are added while rooms are filled, in the queue's order."""

    def __init__(self, asking: Mapping[str, Asking], now: float) -> None:
        self.asking = asking
        self.unmet: list[Unmet] = []
        self._now = now

    def add(self, unmet: Unmet) -> bool:
        """A trial that does not fit. What is left of a gang is held for it from now on.

        Returns whether nodes are in flight for it, or may be asked for.
        """
        self.unmet.append(unmet)
        gang_in = []
        may_come = False
        for opening in unmet.opens:
            asking = self.asking[opening.pool]
            if gang_nodes(unmet.want, asking.pool.slots_per_node):
                gang_in.append(opening)
            else:
                may_come = may_come or asking.may_have(unmet.want)
        for opening in gang_in:
            looks = opening in unmet.looks_on(self._now)
            if looks and self.asking[opening.pool].begin(unmet.want):
                unmet.served += (opening.pool,)
        first = True
        for opening in gang_in:
            asking = self.asking[opening.pool]
            looks = opening in unmet.looks_on(self._now)
            if looks and asking.plan_gang(unmet.want, first=first):
                first = False
        return may_come or bool(unmet.served) or not first

    def settle(self) -> dict[str, list[Launch]]:
        """The requests by pool, and for every unmet trial the pools that serve it."""
        for unmet in self.unmet:
            self._ask_gang(unmet)
        for asking in self.asking.values():
            asking.release_whole()
        packed = sorted(self.unmet, key=lambda u: (-u.want.slots, len(u.opens), u.want.order))
        for unmet in packed:
            self._ask_single(unmet)
        return {name: asking.launches() for name, asking in self.asking.items()}

    def dates(self) -> list[float]:
        """When this would come out otherwise by itself."""
        found: list[float] = []
        for asking in self.asking.values():
            found += [*asking.dates, *([] if asking.due is None else [asking.due])]
        for unmet in self.unmet:
            for index, opening in enumerate(unmet.opens[:-1]):
                due = unmet.due_again(index)
                if due is not None and due > self._now and opening.pool in unmet.served:
                    found.append(due)
        return found

    def _ask_gang(self, unmet: Unmet) -> None:
        for opening in unmet.looks_on(self._now):
            asking = self.asking[opening.pool]
            if not gang_nodes(unmet.want, asking.pool.slots_per_node):
                if asking.can and unmet.want.slots <= asking.pool.slots_per_node:
                    asking.stand_behind(unmet.want)
                    return
            elif asking.ask_gang(unmet.want):
                unmet.served += (opening.pool,)
                return

    def _ask_single(self, unmet: Unmet) -> None:
        want = unmet.want
        while self._is_in_flight(unmet):
            pass
        for opening in unmet.looks_on(self._now):
            if self.asking[opening.pool].ask_single(want, max(opening.at, want.queued)):
                unmet.served += (opening.pool,)
                return

    def _is_in_flight(self, unmet: Unmet) -> bool:
        """Whether nodes that come have room for it, in one more pool than was known."""
        for opening in unmet.looks_on(self._now):
            if self.asking[opening.pool].in_flight(unmet.want):
                unmet.served += (opening.pool,)
                self.asking[opening.pool].join(max(opening.at, unmet.want.queued))
                return True
        return False
