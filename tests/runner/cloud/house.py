"""A whole house whose pool is the real one for AWS, over the model of EC2.

Store, runner, pool and the model are the product's; the agents on the machines are played by hand,
with the product's own writes where others depend on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burst.core.aws.names import LAUNCH
from burst.core.blobs import open_blobs
from burst.core.config.cluster import AwsPool as AwsPoolConfig
from burst.core.config.cluster import ClusterConfig
from burst.core.errors import Conflict, Unreachable
from burst.core.ids import new_id
from burst.core.model import Allocation, Code, Exit, ExitKind, Experiment, Lease, Node, Slot, Trial
from burst.core.states import AllocationState, Reason, is_terminal
from burst.core.store import update
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Put, Store
from burst.core.workspace import Workspace
from burst.runner.agent.attempts.releasing import Overtaken, note_drain, release, step
from burst.runner.agent.host import Reclaim
from burst.runner.agent.serving.registration import leave, note_notice
from burst.runner.audit import audit, unexplained
from burst.runner.loop import Runner
from burst.runner.node.identity import Mine, Over, claim
from burst.runner.node.main import NODE_PATIENCE_S, SETTLE_S
from burst.runner.pools.aws import AwsPool
from burst.runner.rehearsal.ec2.machine import Machine, State
from burst.runner.rehearsal.ec2.machine import Reason as Why
from burst.runner.search.book import Book
from tests.runner.cloud.faults import Acts, CountedEc2, CountedStore
from tests.runner.cloud.model import CLUSTER, POOL, TYPES, ZONES, Model, Skewed
from tests.runner.house import config_of

DRAINED = Exit(kind=ExitKind.DRAINED)
CONFIG = AwsPoolConfig(instance_types=TYPES, zones=ZONES, max_nodes=5, slots_per_node=1, idle=20.0)
TURN_S = 5.0
LEASE_S = 60.0
NOTICE, DIE, SILENT = "notice", "die", "silent"
"""What a script returns for a machine that is to be taken away, with and without a notice, and for
one that is to stay without doing anything."""
Script = Callable[[Trial, Allocation, Node, float], Exit | str | None]
"""Of a trial, its allocation, a node of it and the seconds it has run: how it ends, or None."""


@dataclass
class Agent:
    """The program on one machine."""

    machine: Machine
    began: float
    node: str = ""
    heard: float | None = None
    """When its lease was renewed last."""


class CloudHouse:
    def __init__(
        self,
        folder: Path,
        model: Model,
        script: Script,
        *,
        acts: Acts | None = None,
        skew: float = 0.0,
        node_skew: float = 0.0,
        configs: Mapping[str, AwsPoolConfig] | None = None,
    ) -> None:
        """
        Args:
            configs: pools of the cluster, beside or instead of the usual one.
            skew: seconds by which the runner's clock is ahead of EC2's.
            node_skew: the same of the machines' clocks.
        """
        model.empty()
        self.model = model
        self.script = script
        self.acts = acts or Acts()
        self.skew, self.node_skew = skew, node_skew
        self.away = False
        """Whether the store answers nobody."""
        self.silent: set[str] = set()
        """Machines on which nothing runs."""
        self.store = MemoryStore()
        self.configs = {POOL: CONFIG, **(configs or {})}
        cluster = ClusterConfig(cluster=CLUSTER, pools=dict(self.configs))
        blobs = open_blobs(f"file://{folder}/blobs")
        self.ws = Workspace(folder, cluster, self.store, blobs)
        counted: Any = CountedStore(self.store, Acts(), lambda: self.away)
        self._node_ws = Workspace(folder, cluster, counted, blobs)
        self.agents: dict[str, Agent] = {}
        self.runner = self.new_runner()

    def new_runner(self, acts: Acts | None = None, skew: float | None = None) -> Runner:
        """A runner that remembers nothing; it is misled by the house's acts unless it has own."""
        acts = self.acts if acts is None else acts
        skew = self.skew if skew is None else skew
        store: Any = CountedStore(self.store, acts, lambda: self.away)
        ws = Workspace(self.ws.home, self.ws.cluster, store, self.ws.blobs)
        pools = {name: self.pool(acts, skew, name) for name in self.configs}
        return Runner(ws, Skewed(self.model, skew), pools)

    def pool(self, acts: Acts | None = None, skew: float = 0.0, name: str = POOL) -> AwsPool:
        ec2 = CountedEc2(self.model, acts or Acts(), skew)
        return AwsPool(name, self.configs[name], CLUSTER, ec2, Skewed(self.model, skew))

    # --- a person ---

    def submit(self, **fields: Any) -> Experiment:
        config = config_of(**fields)
        clock = Skewed(self.model)
        now = clock.now()
        experiment = Experiment(
            id=new_id("exp", clock),
            state_since=now,
            name=config.name,
            owner="me",
            created=now,
            config=config.model_dump(mode="json"),
            code=Code(digest="0" * 64, size=1),
            search=Book.opened().written(),
        )
        self.store.commit(Put(experiment))
        return experiment

    # --- time ---

    def turn(self, *, run: bool = True) -> None:
        """The runner if there is one, then the agents, then some seconds."""
        try:
            if run:
                self.settle()
        finally:
            self.play()
            self.check()
            self.model.advance(TURN_S)

    def settle(self) -> None:
        for _ in range(60):
            try:
                if self.runner.step() != 0.0:
                    return
            except Unreachable:
                return
        raise AssertionError("reconcile never comes to rest")

    # --- machines ---

    def play(self) -> None:
        for machine in list(self.model.cloud.machines.values()):
            if machine.state is State.RUNNING and machine.id not in self.silent:
                agent = self.agents.setdefault(machine.id, Agent(machine, self.model.clock.now()))
                try:
                    self._agent(agent)
                except (Unreachable, Conflict, Overtaken):
                    continue

    def _agent(self, agent: Agent) -> None:
        clock, store = Skewed(self.model, self.node_skew), self._node_ws.store
        node = self._node_of(agent)
        if node is None:
            return
        lapsed = agent.heard is not None and self.model.clock.now() - agent.heard > LEASE_S
        lease = self._renewed(agent, node, store)
        if lease is None or node.gone is not None or node.terminating is not None:
            self.model.cloud.end(agent.machine, Why.ITSELF)
            return
        if node.registered is None:
            self._register(node, store)
            return
        machine = agent.machine
        if machine.reclaim_at is not None and node.noticed is None:
            at = machine.reclaim_at + self.node_skew
            said = Reclaim(clock.now(), at, at - 20.0, "it will be taken away")
            node = note_notice(store, node.id, said, clock)
        mine = [
            each
            for each in store.live(Allocation, POOL)
            if any(share.node == node.id for share in each.shares) and node.id not in each.ends
        ]
        for allocation in mine:
            if lapsed:  # it has stopped its processes, as its lease had run out
                release(store, allocation.id, node.id, DRAINED, clock, lambda: False)
            else:
                self._serve(agent, node, allocation)
        if node.draining is not None and not mine:
            leave(self._node_ws, node.id, lease, Reason(code="drained"), clock)
            self.model.cloud.end(machine, Why.ITSELF)

    def _node_of(self, agent: Agent) -> Node | None:
        """Its node, claimed as `burst.runner.node` does; a machine that has none ends itself."""
        store = self._node_ws.store
        if agent.node:
            return store.get(Node, agent.node)
        waited = self.model.clock.now() - agent.began
        launch, clock = self._launch_of(agent.machine), Skewed(self.model, self.node_skew)
        take = waited >= SETTLE_S
        found = claim(store, launch, POOL, agent.machine.id, clock, take=take)
        if isinstance(found, Mine):
            agent.node = found.node.id
            return store.get(Node, agent.node)
        if isinstance(found, Over) or waited >= NODE_PATIENCE_S:
            self.model.cloud.end(agent.machine, Why.ITSELF)
        return None

    def _launch_of(self, machine: Machine) -> str:
        return machine.body.tags()[LAUNCH]

    def _renewed(self, agent: Agent, node: Node, store: Store) -> Lease | None:
        """Its lease; None where somebody has revoked it."""
        known = store.find(Lease, node.id)
        if known is not None and (known.revoked or known.holder != agent.machine.id):
            return None
        lease = known or Lease(id=node.id, length=LEASE_S, holder=agent.machine.id)
        store.commit(Put(lease))
        agent.heard = self.model.clock.now()
        return lease.model_copy(update={"version": lease.version + 1})

    def _register(self, node: Node, store: Store) -> None:
        now = self.model.clock.now() + self.node_skew
        slots = tuple(Slot(index=index) for index in range(node.expected_slots))

        def change(record: Node) -> Node:
            dates = {"launched": record.launched or now, "registered": now, "ready": now}
            told = {"slots": slots, "idle_since": now}
            return record.model_copy(update={**dates, **told})

        update(store, Node, node.id, change, clock=Skewed(self.model))

    def _serve(self, agent: Agent, node: Node, allocation: Allocation) -> None:
        clock, store = Skewed(self.model, self.node_skew), self._node_ws.store
        state = allocation.state
        reason = Reason(code="agent")
        if node.draining is not None and state is not AllocationState.DRAINING:
            said = Reclaim(clock.now(), clock.now(), clock.now() + 60.0, "")
            note_drain(store, allocation.id, said.drain, clock)
        elif state is AllocationState.ASSIGNED:
            step(store, allocation.id, AllocationState.STARTING, reason, clock)
        elif state is AllocationState.STARTING:
            facts = {"started": clock.now()}
            step(store, allocation.id, AllocationState.RUNNING, reason, clock, **facts)
        elif state is AllocationState.DRAINING:
            release(store, allocation.id, node.id, DRAINED, clock, lambda: False)
        else:
            trial = store.get(Trial, allocation.trial)
            ran = clock.now() - (allocation.started or clock.now())
            said_now = self.script(trial, allocation, node, ran)
            if said_now == DIE:
                self.model.cloud.interrupt(agent.machine, None)
            elif said_now == SILENT:
                self.silent.add(agent.machine.id)
            elif said_now == NOTICE and agent.machine.noticed is None:
                self.model.cloud.interrupt(agent.machine, 120.0)
            elif isinstance(said_now, Exit):
                release(store, allocation.id, node.id, said_now, clock, lambda: False)

    # --- what holds at every moment ---

    def check(self) -> None:
        live = self.store.live(Allocation)
        taken = [(s.node, i) for each in live for s in each.shares for i in s.slots]
        assert len(taken) == len(set(taken)), "a slot is given twice"
        trials = [each.trial for each in live]
        assert len(trials) == len(set(trials)), "a trial has two live allocations"
        nodes = self.store.children(Node, "")
        held = [n.handle["instance"] for n in nodes if n.gone is None and "instance" in n.handle]
        assert len(held) == len(set(held)), "two nodes have one machine"
        wanted = [each for each in nodes if each.gone is None]
        assert len(wanted) <= CONFIG.max_nodes, "more nodes than the pool may have"
        machines = self.model.cloud.machines.values()
        there = {each.id for each in machines if each.state is not State.TERMINATED}
        buried = {n.id for n in nodes if n.gone is not None and n.handle.get("instance") in there}
        assert not buried, "a node is called gone whose machine has not ended"

    # --- what to look at ---

    def trials(self) -> list[Trial]:
        experiments = self.store.children(Experiment, "")
        return [trial for each in experiments for trial in self.store.children(Trial, each.id)]

    def attempts(self, trial: Trial) -> list[Allocation]:
        return self.store.children(Allocation, trial.id)

    def over(self) -> bool:
        return all(is_terminal(e.state) for e in self.store.children(Experiment, ""))

    def at_rest(self) -> bool:
        records = (*self.store.live(Node), *self.store.live(Allocation))
        there = (*self.model.living(), *self.model.cloud.groups)
        return self.over() and not records and not there

    def left_behind(self) -> list[str]:
        """What costs money, or carries the cluster's tags, or is unexplained."""
        found = [each.id for each in self.model.living()]
        found += list(self.model.cloud.groups)
        found += [each.id for each in self.pool().leftovers()]
        found += [each.id for each in unexplained(audit(self.ws, {POOL: self.pool()}))]
        return found

    def made(self) -> int:
        """Machines that there ever were."""
        return len(self.model.cloud.machines)

    def outcome(self) -> Mapping[str, Any]:
        """What must be the same whatever happened on the way."""
        return {
            "experiments": [each.state for each in self.store.children(Experiment, "")],
            "trials": [(t.state, t.restarts, t.hparams, t.seed) for t in self.trials()],
            "completions": [
                sum(a.exit is not None and a.exit.kind is ExitKind.COMPLETED for a in attempts)
                for attempts in map(self.attempts, self.trials())
            ],
            "live": (len(self.store.live(Node)), len(self.store.live(Allocation))),
            "left": self.left_behind(),
        }

    def story(self) -> str:
        """For a failed assertion: every node and machine, and what became of it."""
        nodes = [
            f"{n.id} {n.state} {n.handle.get('instance')} {n.launch} {n.gone_reason}"
            for n in self.store.children(Node, "")
        ]
        machines = [
            f"{m.id} {m.state} {m.reason} {self._launch_of(m)}"
            for m in self.model.cloud.machines.values()
        ]
        acts = Counter(self.acts.names)
        waits = [f"{t.id} {t.state} {t.wait}" for t in self.trials()]
        return "\n".join([*nodes, *machines, *waits, str(acts)])
