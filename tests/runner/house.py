"""A whole house in one process: store in memory, fake pool, agents and clock by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from burst.core.blobs import open_blobs
from burst.core.clock import ManualClock
from burst.core.config.cluster import ClusterConfig, LocalPool, Scheduler
from burst.core.config.experiment import ExperimentConfig
from burst.core.errors import Conflict
from burst.core.ids import new_id
from burst.core.model import (
    Allocation,
    Code,
    Drain,
    Exit,
    ExitKind,
    Experiment,
    Failure,
    Lease,
    Node,
    Slot,
    Trial,
)
from burst.core.states import AllocationState, Reason, is_terminal
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Fence, Put, Store
from burst.core.workspace import Workspace
from burst.runner.loop import Runner
from burst.runner.pools.fake import FakePool
from burst.runner.pools.port import Liveness, Pool
from burst.runner.search.book import Book
from burst.runner.transitions import move

COMPLETED = Exit(kind=ExitKind.COMPLETED)
CRASHED = Exit(kind=ExitKind.CRASHED, failure=Failure(kind="ValueError", message="no"))
INFRASTRUCTURE = Exit(kind=ExitKind.INFRASTRUCTURE, failure=Failure(kind="OSError", message="io"))
INVALID = Exit(kind=ExitKind.INVALID_HP)

DIE = "die"
"""What a script returns for a machine that vanishes."""
Script = Callable[[Trial, Allocation, float], Exit | str | None]
"""Of a trial, its allocation and the seconds it has run: how it ends now, or None to go on."""


def complete(trial: Trial, allocation: Allocation, ran: float) -> Exit | str | None:
    return COMPLETED if ran >= 3.0 else None


def forever(trial: Trial, allocation: Allocation, ran: float) -> Exit | str | None:
    return None


def config_of(**fields: Any) -> ExperimentConfig:
    made = {
        "name": "n",
        "entrypoint": "train:Trial",
        "searcher": {"name": "single"},
        "hyperparameters": {},
        "reproducibility": {"experiment_seed": 1},
        **fields,
    }
    return ExperimentConfig.model_validate(made)


class House:
    def __init__(
        self,
        folder: Path,
        *,
        slots: int = 1,
        nodes: int = 1,
        idle: float = 5.0,
        preemption: bool = False,
        script: Script = complete,
    ) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore()
        cluster = ClusterConfig(
            pools={"local": LocalPool(idle=idle)}, scheduler=Scheduler(preemption=preemption)
        )
        self.ws = Workspace(folder, cluster, self.store, open_blobs(f"file://{folder}/blobs"))
        self.pool = FakePool("local", self.clock, slots_per_node=slots, max_nodes=nodes)
        self.script = script
        self.silent: set[str] = set()
        """Nodes whose agents do nothing, not even renew their leases."""
        self.deaf = False
        """Whether agents do not hear that they are to leave."""
        self.unfit = ""
        """What agents find wrong with their machine, if anything; they leave at once."""
        self.stubborn = False
        """Whether agents stay that were told to leave."""
        self.runner = self.new_runner()

    def new_runner(self, store: Store | None = None, pool: Pool | None = None) -> Runner:
        ws = self.ws
        if store is not None:
            ws = Workspace(ws.home, ws.cluster, store, ws.blobs)
        return Runner(ws, self.clock, {"local": pool or self.pool})

    # --- a person ---

    def submit(self, **fields: Any) -> Experiment:
        config = config_of(**fields)
        now = self.clock.now()
        experiment = Experiment(
            id=new_id("exp", self.clock),
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

    def run(self, seconds: float = 60.0, *, until: Callable[[], bool] | None = None) -> None:
        """Runner and agents in turns; a runner that has more to do at once is asked again."""
        for _ in range(int(seconds)):
            self.turn()
            if until is not None and until():
                return
        assert until is None, "it never came about"

    def turn(self) -> None:
        self.settle()
        self.agents()
        self.check()
        self.clock.advance(1.0)

    def settle(self) -> None:
        for _ in range(50):
            if self.runner.step() != 0.0:
                return
        raise AssertionError("reconcile never comes to rest")

    def agents(self) -> None:
        for node in self.store.live(Node):
            alive = self.pool.made.get(node.id) is Liveness.ALIVE
            if alive and node.id not in self.silent:
                self._agent(node)

    def _agent(self, node: Node) -> None:
        now = self.clock.now()
        lease = self.store.find(Lease, node.id)
        if lease is not None and lease.revoked:
            self.pool.die(node.id)
            return
        self.store.commit(Put(lease or Lease(id=node.id)))
        if node.registered is None:
            slots = tuple(Slot(index=index) for index in range(node.expected_slots))
            dates = {"launched": node.launched or now, "registered": now, "ready": now}
            if self.unfit:
                facts = {**node.facts, "problems": [self.unfit]}
                leaving = {"draining": now, "terminating": now, "ready": None, "facts": facts}
                self.store.commit(Put(node.model_copy(update={**dates, **leaving})))
                self.pool.die(node.id)
                return
            self.store.commit(Put(node.model_copy(update={**dates, "slots": slots})))
            return
        mine = [
            each
            for each in self.store.live(Allocation, node.pool)
            if each.shares[0].node == node.id
        ]
        for allocation in mine:
            self._serve(node, allocation)
        if node.draining is not None and not mine and not self.stubborn:
            self.pool.die(node.id)

    def _serve(self, node: Node, allocation: Allocation) -> None:
        now = self.clock.now()
        state = allocation.state
        if state is AllocationState.ASSIGNED:
            self._step(allocation, AllocationState.STARTING)
        elif state is AllocationState.STARTING:
            self._step(allocation, AllocationState.RUNNING, started=now)
        elif state is AllocationState.DRAINING:
            drain = allocation.drain
            assert isinstance(drain, Drain)
            if not self.deaf or drain.cause == "kill":
                exit = Exit(kind=ExitKind.DRAINED)
                self._step(allocation, AllocationState.RELEASED, exit=exit, ended=now)
        else:
            trial = self.store.get(Trial, allocation.trial)
            said = self.script(trial, allocation, now - (allocation.started or now))
            if said == DIE:
                self.pool.die(node.id)
            elif isinstance(said, Exit):
                self._step(allocation, AllocationState.RELEASED, exit=said, ended=now)

    def _step(self, allocation: Allocation, to: AllocationState, **fields: Any) -> None:
        changed, event = move(
            allocation,
            to,
            Reason(code="agent"),
            self.clock.now(),
            experiment=allocation.experiment,
            **fields,
        )
        try:
            self.store.commit(Put(changed), event, Fence(allocation.trial, allocation.token))
        except Conflict:
            return

    # --- what holds at every moment ---

    def check(self) -> None:
        live = self.store.live(Allocation)
        taken = [(s.node, i) for each in live for s in each.shares for i in s.slots]
        assert len(taken) == len(set(taken)), "a slot is given twice"
        trials = [each.trial for each in live]
        assert len(trials) == len(set(trials)), "a trial has two live allocations"
        for each in live:
            assert self.store.get(Trial, each.trial).token == each.token
        assert len(self.pool.alive) <= self.pool.limits.max_nodes

    # --- what to look at ---

    def experiment(self) -> Experiment:
        return self.store.children(Experiment, "")[-1]

    def trials(self, experiment: Experiment | None = None) -> list[Trial]:
        return self.store.children(Trial, (experiment or self.experiment()).id)

    def trial(self, number: int = 0) -> Trial:
        return self.trials()[number]

    def attempts(self, trial: Trial) -> list[Allocation]:
        return self.store.children(Allocation, trial.id)

    def over(self) -> bool:
        return all(is_terminal(e.state) for e in self.store.children(Experiment, ""))

    def at_rest(self) -> bool:
        return self.over() and not self.store.live(Node) and not self.store.live(Allocation)

    def outcome(self) -> Mapping[str, Any]:
        """What an experiment came to, without ids, dates and how often it was tried to get there
        for reasons of the world."""
        return {
            "experiment": self.experiment().state,
            "trials": [(t.state, t.restarts, t.hparams, t.seed) for t in self.trials()],
            "exits": [
                [a.exit.kind for a in self.attempts(t) if a.exit is not None]
                for t in self.trials()
            ],
            "machines": self.pool.alive,
            "live": (len(self.store.live(Node)), len(self.store.live(Allocation))),
        }
