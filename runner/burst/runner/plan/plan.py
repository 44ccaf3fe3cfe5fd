"""The plan: from all that is live at one moment to what should happen next.

Trials are taken in order of priority, then of the queue. One that fits starts. The first that does
not is the head of its pools: the nodes nearest to fitting it are held for it, and only what those
nodes are not needed for starts behind it. Every trial that does not start is given a reason.
"""

from __future__ import annotations

from burst.core.states import Reason
from burst.runner.plan.demand import can_ever_fit, to_launch
from burst.runner.plan.preempt import victims
from burst.runner.plan.reasons import holding_back, why_not
from burst.runner.plan.room import Room
from burst.runner.plan.snapshot import (
    Launch,
    Plan,
    PlanNode,
    PlanPool,
    Run,
    Snapshot,
    Start,
    Wait,
    Want,
    Yield,
)


def plan(snapshot: Snapshot) -> Plan:
    """What to start, to make room for, to launch and to give back.

    Pure, and the same for any order of the snapshot's parts. Takes n log n time in what is live.
    A start names only slots of nodes in the snapshot: demand is never bound to a node to come.
    """
    making = _Making(snapshot)
    for want in sorted(snapshot.wants, key=lambda want: want.order):
        making.take(want)
    return making.finish()


class _Making:
    """A plan while it is being made."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.now = snapshot.now
        self.snapshot = snapshot
        self.pools: dict[str, PlanPool] = {pool.name: pool for pool in snapshot.pools}
        self.nodes: dict[str, list[PlanNode]] = {name: [] for name in self.pools}
        for node in snapshot.nodes:
            if node.pool in self.nodes:
                self.nodes[node.pool].append(node)
        self.runs: dict[str, list[Run]] = {name: [] for name in self.pools}
        self.used: dict[str, int] = {}
        for run in snapshot.runs:
            held = sum(len(share.slots) for share in run.shares)
            self.used[run.experiment] = self.used.get(run.experiment, 0) + held
            if run.pool in self.runs:
                self.runs[run.pool].append(run)
        self.rooms = {name: Room(self.nodes[name], self.runs[name]) for name in self.pools}
        self.yielding = {run.pool for run in snapshot.runs if run.yielding}
        self.heads: dict[str, Want] = {}
        self.demand: dict[str, list[Want]] = {name: [] for name in self.pools}
        self.starts: list[Start] = []
        self.yields: list[Yield] = []
        self.waits: list[Wait] = []
        self.unplaced: list[tuple[Want, bool]] = []

    def take(self, want: Want) -> None:
        if want.hold is not None:
            self.waits.append(Wait(want.trial, want.hold, want.hold_until))
            return
        over = self._over_its_share(want)
        if over is not None:
            self.waits.append(Wait(want.trial, over))
            return
        # Trials that only wait for room count too, or more nodes would be launched for an
        # experiment than it may use.
        self.used[want.experiment] = self.used.get(want.experiment, 0) + want.slots
        if not self._start(want):
            self._leave_waiting(want)

    def _over_its_share(self, want: Want) -> Reason | None:
        most = self.snapshot.max_slots.get(want.experiment)
        used = self.used.get(want.experiment, 0)
        return holding_back(want, used, most) if most and used + want.slots > most else None

    def _start(self, want: Want) -> bool:
        for name in want.pools:
            if name not in self.pools or name in self.yielding:
                continue
            shares = self.rooms[name].place(want)
            if shares is not None:
                self.starts.append(Start(want.trial, name, shares))
                return True
        return False

    def _leave_waiting(self, want: Want) -> None:
        known = [name for name in want.pools if name in self.pools]
        is_head = any(name not in self.heads for name in known)
        makes_room = False
        for name in known:
            if name in self.heads:
                continue
            self.heads[name] = want
            self.rooms[name].hold_for(want)
            if self.snapshot.preemption and not makes_room and name not in self.yielding:
                makes_room = self._make_room(want, name)
        self.unplaced.append((want, is_head))
        if not makes_room:
            self._demand(want, known)

    def _make_room(self, want: Want, pool: str) -> bool:
        leaving = victims(want, self.nodes[pool], self.runs[pool])
        self.yields += [Yield(run.allocation, run.trial, want.trial) for run in leaving]
        if leaving:
            # Whatever is free now is part of the room being made.
            self.yielding.add(pool)
        return bool(leaving)

    def _demand(self, want: Want, known: list[str]) -> None:
        for name in known:
            pool = self.pools[name]
            if pool.launches and can_ever_fit(want, pool.slots_per_node, pool.max_nodes):
                self.demand[name].append(want)
                return

    def finish(self) -> Plan:
        launches = []
        for name in sorted(self.demand):
            count = to_launch(self.pools[name], self.demand[name], self.now)
            if count:
                launches.append(Launch(name, count))
        asked = {launch.pool for launch in launches}
        for want, is_head in self.unplaced:
            name = next((pool for pool in want.pools if pool in self.pools), "")
            pool = self.pools.get(name)
            room = self.rooms.get(name)
            reason, until = why_not(
                want, pool, room, ahead=not is_head, asked=name in asked, now=self.now,
                yielding=name in self.yielding,
            )  # fmt: skip
            if want.closed:
                reason = reason.model_copy(update={"text": f"{reason.text}; {want.closed}"})
            self.waits.append(Wait(want.trial, reason, until))
        drains, next_idle = self._idle()
        dates = [wait.until for wait in self.waits if wait.until is not None] + next_idle
        return Plan(
            starts=tuple(self.starts),
            yields=tuple(self.yields),
            launches=tuple(launches),
            drains=tuple(drains),
            waits=tuple(sorted(self.waits, key=lambda wait: wait.trial)),
            next=min((date for date in dates if date > self.now), default=None),
        )

    def _idle(self) -> tuple[list[str], list[float]]:
        """The nodes that leave for want of work, and when others will."""
        busy = {share.node for run in self.snapshot.runs for share in run.shares}
        busy |= {share.node for start in self.starts for share in start.shares}
        drains: list[str] = []
        later: list[float] = []
        for name in sorted(self.pools):
            idle = self.pools[name].idle
            head = self.heads.get(name)
            if idle is None or (head is not None and self.rooms[name].could_ever(head)):
                continue
            for node in sorted(self.nodes[name], key=lambda node: node.id):
                if node.id in busy or node.idle_since is None:
                    continue
                leaves = node.idle_since + idle
                if leaves <= self.now:
                    drains.append(node.id)
                else:
                    later.append(leaves)
        return drains, later
