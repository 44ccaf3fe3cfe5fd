"""A model of a fleet that the plan is tried on: trials arrive, nodes boot, work and vanish."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from burst.core.model import Share
from burst.runner.plan import Plan, Snapshot, plan
from burst.runner.plan.demand import Bins, gang_nodes
from burst.runner.plan.snapshot import Launch, PlanNode, PlanPool, Run, Start, Want


@dataclass
class Machine:
    id: str
    pool: str
    slots: int
    ready_at: float
    cell: str = ""
    request: int = 0
    whole: bool = False
    idle_since: float | None = None


@dataclass
class Work:
    want: Want
    lasts: float
    starts: Start | None = None
    ends: float = 0.0


@dataclass
class Fleet:
    pools: tuple[PlanPool, ...]
    rng: random.Random
    now: float = 0.0
    boots: float = 5.0
    machines: dict[str, Machine] = field(default_factory=dict)
    work: dict[str, Work] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    launched: list[Launch] = field(default_factory=list)
    drained: list[str] = field(default_factory=list)
    refuses: frozenset[str] = frozenset()
    """Pools that give no node, and are asked again ten seconds later."""
    retry: dict[str, float] = field(default_factory=dict)
    requests: int = 0

    def arrive(self, slots: int, lasts: float = 5.0, **fields: object) -> Want:
        id = f"t{len(self.work) + len(self.done):04d}"
        want = Want(id, "exp", slots, (self.pools[0].name,), 42, self.now)
        want = replace(want, **fields)  # type: ignore[arg-type]
        self.work[id] = Work(want, lasts)
        return want

    def snapshot(self) -> Snapshot:
        ready = [m for m in self.machines.values() if m.ready_at <= self.now]
        return Snapshot(
            self.now,
            tuple(w.want for w in self.work.values() if w.starts is None),
            tuple(self._run(w) for w in self.work.values() if w.starts is not None),
            tuple(
                PlanNode(m.id, m.pool, tuple(range(m.slots)), m.idle_since, m.cell) for m in ready
            ),
            tuple(self._pool(pool) for pool in self.pools),
        )

    def turn(self) -> Plan:
        """A second passes: what is over leaves, the plan is made and carried out."""
        self.now += 1.0
        for id, work in list(self.work.items()):
            if work.starts is not None and work.ends <= self.now:
                del self.work[id]
                self.done.append(id)
        busy = self.busy()
        for machine in self.machines.values():
            if machine.id in busy or machine.ready_at > self.now:
                machine.idle_since = None
            elif machine.idle_since is None:
                machine.idle_since = self.now
        made = plan(self.snapshot())
        self.carry_out(made)
        return made

    def carry_out(self, made: Plan) -> None:
        for start in made.starts:
            work = self.work[start.trial]
            work.starts, work.ends = start, self.now + work.lasts
            for share in start.shares:
                self.machines[share.node].idle_since = None
        for launch in made.launches:
            if launch.pool in self.refuses:
                self.retry[launch.pool] = self.now + 10.0
            else:
                self._launch(launch)
        for id in made.drains:
            self.drained.append(id)
            del self.machines[id]

    def lose(self, id: str) -> None:
        """A machine vanishes; what it did waits again."""
        del self.machines[id]
        for work in self.work.values():
            if work.starts is not None and any(s.node == id for s in work.starts.shares):
                work.starts = None

    def busy(self) -> set[str]:
        return {s.node for w in self.work.values() if w.starts for s in w.starts.shares}

    def _launch(self, launch: Launch) -> None:
        self.launched.append(launch)
        self.requests += 1
        pool = next(each for each in self.pools if each.name == launch.pool)
        one = self.rng.choice("xyz")
        if launch.beside:
            one = self.machines[launch.beside].cell
        for _ in range(launch.count):
            id = f"n{sum(each.count for each in self.launched):04d}-{len(self.machines)}"
            cell = one if launch.whole else self.rng.choice("xyz")
            ready = self.now + self.boots + (0 if launch.whole else self.rng.randrange(3))
            self.machines[id] = Machine(
                id, pool.name, pool.slots_per_node, ready, cell, self.requests, launch.whole
            )

    def _run(self, work: Work) -> Run:
        start = work.starts
        assert start is not None
        return Run(
            f"a-{start.trial}", start.trial, "exp", start.pool, work.want.priority, start.shares,
            self.now,
        )  # fmt: skip

    def _pool(self, pool: PlanPool) -> PlanPool:
        mine = [m for m in self.machines.values() if m.pool == pool.name]
        coming = [m for m in mine if m.ready_at > self.now]
        whole = [m.request for m in coming if m.whole]
        cells = {m.request: m.cell for m in coming}
        retry = self.retry.get(pool.name)
        return replace(
            pool,
            nodes=len(mine),
            coming=len(coming),
            coming_whole=tuple(whole.count(request) for request in sorted(set(whole))),
            coming_cells=tuple(cells[request] for request in sorted(set(whole))),
            retry_at=retry if retry is not None and retry > self.now else None,
            trouble="InsufficientInstanceCapacity" if retry is not None else "",
        )


def shares_of(made: Plan) -> list[Share]:
    return [share for start in made.starts for share in start.shares]


def nodes_needed(wants: Sequence[Want], slots_per_node: int) -> int:
    """Nodes for `wants` from nothing; gangs take whole nodes of their own."""
    gangs = sum(gang_nodes(want, slots_per_node) for want in wants)
    bins, opened = Bins(slots_per_node, 0), 0
    for slots in sorted((w.slots for w in wants if w.slots <= slots_per_node), reverse=True):
        # Trials without slots ride along on any node, a gang's too.
        if not bins.put(slots) and (slots or not gangs + opened):
            bins.open()
            opened += 1
            bins.put(slots)
    return gangs + opened
