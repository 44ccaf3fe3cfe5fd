"""The plan: from all that is live at one moment to what should happen next.

Trials are taken in order of priority, then of the queue. One that fits starts, in the first of
its pools that is open to it and has room. The first that does not is the head of its pools: the
nodes nearest to fitting it are held for it, and only what those nodes are not needed for starts
behind it. Every trial that does not start is given a reason.
"""

from __future__ import annotations

from burst.core.states import Reason
from burst.runner.plan.bursting import Opening, is_dry, openings
from burst.runner.plan.demand import can_ever_fit
from burst.runner.plan.leaving import unused
from burst.runner.plan.preempt import victims
from burst.runner.plan.reasons import Answers, Standing, holding_back
from burst.runner.plan.room import Room
from burst.runner.plan.scaling import Asking, Scaling, Unmet
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
        self.scaling = Scaling(
            {
                name: Asking(pool, self.rooms[name], self.nodes[name], self.now)
                for name, pool in self.pools.items()
            },
            self.now,
        )
        self.yielding = {run.pool for run in snapshot.runs if run.yielding}
        self.heads: dict[str, Want] = {}
        self.kept: set[str] = set()
        """Nodes without work that somebody waits for."""
        self.soon: list[tuple[Want, tuple[Opening, ...]]] = []
        """Trials that may start in some pools later, of themselves, and when."""
        self.never: dict[tuple[str, int, bool, frozenset[str]], bool] = {}
        self.starts: list[Start] = []
        self.yields: list[Yield] = []
        self.waits: list[Wait] = []
        self.waiting: list[tuple[Unmet, tuple[Opening, ...]]] = []

    def take(self, want: Want) -> None:
        known = self._openings(want)
        if want.hold is not None:
            self.waits.append(Wait(want.trial, want.hold, want.hold_until))
            if want.hold_until is not None:
                until = want.hold_until
                later = tuple(Opening(each.pool, max(each.at, until)) for each in known)
                self.soon.append((want, later))
            return
        over = None if want.leaving else self._over_its_share(want)
        if over is not None:
            self.waits.append(Wait(want.trial, over))
            return
        if not want.leaving:
            # Trials that only wait for room count too, or more nodes would be launched for an
            # experiment than it may use.
            self.used[want.experiment] = self.used.get(want.experiment, 0) + want.slots
        opens = known
        if known and known[-1].at > self.now:
            opens = tuple(each for each in known if each.at <= self.now)
        if not self._start(want, opens):
            if len(opens) < len(known):
                self.soon.append((want, known[len(opens) :]))
            unmet = self._leave_waiting(want, opens)
            if not want.leaving:
                self.waiting.append((unmet, known))

    def _openings(self, want: Want) -> tuple[Opening, ...]:
        known = [self.pools[name] for name in want.pools if name in self.pools]
        if len(known) == 1:
            return (Opening(known[0].name, min(want.queued, self.now)),)

        def hopeless(pool: PlanPool, until: float) -> bool:
            return is_dry(pool, len(self.nodes[pool.name]), until) or self._never(want, pool)

        first, *others = openings(want, known, hopeless) or (None,)
        if first is None:
            return ()
        return (Opening(first.pool, min(first.at, self.now)), *others)

    def _never(self, want: Want, pool: PlanPool) -> bool:
        key = (pool.name, want.slots, want.single_node, want.blocked)
        if key not in self.never:
            ever = can_ever_fit(want, pool.slots_per_node, pool.max_nodes)
            self.never[key] = not ever and not self.rooms[pool.name].could_ever(want)
        return self.never[key]

    def _over_its_share(self, want: Want) -> Reason | None:
        most = self.snapshot.max_slots.get(want.experiment)
        used = self.used.get(want.experiment, 0)
        return holding_back(want, used, most) if most and used + want.slots > most else None

    def _start(self, want: Want, opens: tuple[Opening, ...]) -> bool:
        for opening in opens:
            if opening.pool in self.yielding:
                continue
            shares = self.rooms[opening.pool].place(want)
            if shares is None:
                continue
            if want.leaving:
                self.kept.update(share.node for share in shares)
            else:
                self.starts.append(Start(want.trial, opening.pool, shares))
            return True
        return False

    def _leave_waiting(self, want: Want, opens: tuple[Opening, ...]) -> Unmet:
        heads = [each.pool for each in opens if each.pool not in self.heads]
        unmet = Unmet(want, opens, tuple(heads))
        makes_room = False
        for name in heads:
            self.heads[name] = want
            if name in self.yielding:
                makes_room = True
            elif self.snapshot.preemption and not (makes_room or want.leaving):
                makes_room = self._make_room(want, name)
        may_come = makes_room or self.scaling.add(unmet)
        for name in heads:
            self._hold(want, name, may_come)
        return unmet

    def _make_room(self, want: Want, pool: str) -> bool:
        leaving = victims(want, self.nodes[pool], self.runs[pool])
        self.yields += [Yield(run.allocation, run.trial, want.trial) for run in leaving]
        if leaving:
            # Whatever is free now is part of the room being made.
            self.yielding.add(pool)
        return bool(leaving)

    def _hold(self, want: Want, pool: str, may_come: bool) -> None:
        room = self.rooms[pool]
        nearest = room.nearest(want)
        room.hold(nearest)
        self.kept.update(nearest)
        if not nearest and not may_come:
            self.scaling.asking[pool].make_way(want)

    def finish(self) -> Plan:
        launches = self.scaling.settle()
        answers = Answers(self.pools, self.rooms, self.now)
        for unmet, known in self.waiting:
            self.waits.append(self._wait(unmet, known, answers))
        drains, dates, keeps = self._idle()
        dates += self.scaling.dates()
        dates += [each.at for _, later in self.soon for each in later]
        dates += [wait.until for wait in self.waits if wait.until is not None]
        asked: list[Launch] = [each for name in sorted(launches) for each in launches[name]]
        return Plan(
            starts=tuple(self.starts),
            yields=tuple(self.yields),
            launches=tuple(asked),
            drains=tuple(drains),
            keeps=tuple(sorted(keeps)),
            waits=tuple(sorted(self.waits, key=lambda wait: wait.trial)),
            next=min((date for date in dates if date > self.now), default=None),
        )

    def _wait(self, unmet: Unmet, known: tuple[Opening, ...], answers: Answers) -> Wait:
        standings = tuple(
            Standing(
                each.pool,
                each.at <= self.now,
                each.pool in unmet.served,
                each.pool not in unmet.heads,
                each.pool in self.yielding,
            )
            for each in known
        )
        dates = [each.at for each in known if each.at > self.now]
        retry = answers.retry_at(standings)
        until = min(dates if retry is None else [*dates, retry], default=None)
        return Wait(unmet.want.trial, answers.why_not(unmet.want, standings), until)

    def _idle(self) -> tuple[list[str], list[float], set[str]]:
        """The nodes that leave for want of work, when others will, and those that stay for
        somebody."""
        busy = {share.node for run in self.snapshot.runs for share in run.shares}
        busy |= {share.node for start in self.starts for share in start.shares}
        self._keep_for_those_to_come()
        drains: list[str] = []
        later: list[float] = []
        keeps: set[str] = set()
        for name in sorted(self.pools):
            if name in self.yielding:
                continue
            kept = self.kept | self.scaling.asking[name].kept
            idle = {node.id for node in self.nodes[name] if node.idle_since is not None}
            keeps |= (kept & idle) - busy
            now, dates = unused(self.pools[name], self.nodes[name], busy, kept, self.now)
            drains += now
            later += dates
        return drains, later, keeps

    def _keep_for_those_to_come(self) -> None:
        """A node that a trial needs before it would have been idle once more stays."""
        for want, later in self.soon:
            for opening in later:
                idle = self.pools[opening.pool].idle
                if idle is None or opening.at - self.now > idle:
                    continue
                shares = self.rooms[opening.pool].place(want)
                if shares is not None:
                    self.kept.update(share.node for share in shares)
                    break
