"""A cluster with one node, a trial to place on it, and an agent to run it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burst.core.clock import SystemClock
from burst.core.code.archive import pack_code, upload_code
from burst.core.config.cluster import ClusterConfig, LocalPool
from burst.core.config.experiment import ExperimentConfig
from burst.core.ids import new_id, trial_id
from burst.core.model import Allocation, Drain, DrainCause, Experiment, Node, Share, Trial
from burst.core.states import AllocationState, Reason, TrialState, advance
from burst.core.store import update
from burst.core.store.port import Put, Store
from burst.core.workspace import Workspace, open_workspace
from burst.runner.agent.serving.main import serve
from burst.runner.agent.serving.registration import join
from burst.runner.agent.site import Settings

STAND_IN = str(Path(__file__).with_name("stand_in.py"))
FAST = Settings(
    launcher=(STAND_IN,),
    poll=0.02,
    node_every=0.05,
    ship_every=0.05,
    sample_every=0.05,
    flush_patience=2.0,
)
CLOCK = SystemClock()
Do = Sequence[tuple[str, Any]]
"""What the stand-in does, see `stand_in.py`."""


def eventually(probe: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What `probe` returns once it is true."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = probe()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds} s")


class Cluster:
    """One workspace and what tests do to it in place of reconcile."""

    def __init__(self, ws: Workspace, code: Path) -> None:
        self.ws = ws
        packed = pack_code(code)
        upload_code(ws.blobs, packed)
        self.code = packed.code

    def node(self) -> Node:
        return join(self.ws, "local")

    def assign(
        self,
        node: Node,
        do: Do,
        *,
        slots: tuple[int, ...] = (0,),
        beside: Sequence[Share] = (),
        **config: Any,
    ) -> Allocation:
        """An allocation on `node` whose ranks do `do`; further keys are the experiment file's.

        Args:
            beside: what it holds on further nodes.
        """
        experiment, trial = self._submit(do, config)
        now = CLOCK.now()
        requested = Allocation(
            id=new_id("alloc", CLOCK),
            trial=trial.id,
            experiment=experiment.id,
            pool=node.pool,
            attempt=1,
            token=trial.token,
            shares=(Share(node=node.id, slots=slots), *beside),
            created=now,
            state_since=now,
        )
        allocation, _ = advance(
            requested, AllocationState.ASSIGNED, Reason(code="planned"), CLOCK.now()
        )
        self.ws.store.commit(Put(allocation))
        return allocation

    def _submit(self, do: Do, config: Mapping[str, Any]) -> tuple[Experiment, Trial]:
        now = CLOCK.now()
        file = ExperimentConfig.model_validate(
            {
                "name": "test",
                "entrypoint": ["python", "train.py"],
                "searcher": {"name": "single"},
                "reproducibility": {"experiment_seed": 1},
                "data": {"do": do},
                **config,
            }
        )
        experiment = Experiment(
            id=new_id("exp", CLOCK),
            name="test",
            owner="me",
            created=now,
            state_since=now,
            config=file.model_dump(mode="json"),
            code=self.code,
        )
        trial = Trial(
            id=trial_id(experiment.id, 0),
            experiment=experiment.id,
            number=0,
            seed=7,
            slots=1,
            pools=("local",),
            created=now,
            queued=now,
            state=TrialState.RUNNING,
            state_since=now,
            token=1,
            attempts=1,
        )
        self.ws.store.commit(Put(experiment), Put(trial))
        return experiment, trial

    def drain(self, allocation: str, cause: DrainCause, seconds: float | None = None) -> None:
        deadline = None if seconds is None else CLOCK.now() + seconds
        drain = Drain(cause=cause, at=CLOCK.now(), deadline=deadline)

        def change(record: Allocation) -> Allocation:
            drained, _ = advance(
                record, AllocationState.DRAINING, Reason(code=cause.value), CLOCK.now()
            )
            return drained.model_copy(update={"drain": drain})

        update(self.ws.store, Allocation, allocation, change)

    def lose(self, allocation: str) -> None:
        """Declare it lost and fence it, as reconcile does."""
        record = self.allocation(allocation)
        lost, _ = advance(record, AllocationState.LOST, Reason(code="lost"), CLOCK.now())
        trial = self.ws.store.get(Trial, record.trial)
        self.ws.store.commit(Put(lost), Put(trial.model_copy(update={"token": trial.token + 1})))

    def allocation(self, id: str) -> Allocation:
        return self.ws.store.get(Allocation, id)

    def reaches(self, id: str, state: AllocationState, seconds: float = 60.0) -> Allocation:
        """The allocation once it is in `state`."""

        def probe() -> Allocation | None:
            found = self.allocation(id)
            return found if found.state is state else None

        found: Allocation = eventually(probe, seconds)
        return found

    def released(self, id: str, seconds: float = 60.0) -> Allocation:
        return self.reaches(id, AllocationState.RELEASED, seconds)


class Running:
    """An agent in a thread of this process; it hears no signals, so tests tell it by its node."""

    def __init__(self, ws: Workspace, node: Node, settings: Settings) -> None:
        self.reason: Reason | None = None
        self.error: BaseException | None = None
        self._ws, self._node, self._settings = ws, node, settings
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.reason = serve(self._ws, self._node.id, self._node.pool, self._settings)
        except BaseException as error:
            self.error = error

    def tell_to_leave(self, store: Store | None = None) -> None:
        """By way of `store`: the agent's own may be one that fails at a call of its choice."""

        def change(node: Node) -> Node | None:
            if node.draining is not None:
                return None
            return node.model_copy(update={"draining": CLOCK.now()})

        update(store or self._ws.store, Node, self._node.id, change)

    def join(self, seconds: float = 60.0) -> Reason | None:
        self.thread.join(seconds)
        assert not self.thread.is_alive()
        return self.reason


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('user code')\n")
    ws = open_workspace(cwd=tmp_path)
    yield Cluster(ws, code)
    ws.store.close()


@pytest.fixture
def start(cluster: Cluster) -> Iterator[Callable[..., Running]]:
    """Starts agents in threads, and sees that they leave at the end."""
    begun: list[Running] = []

    def begin(node: Node, **changes: Any) -> Running:
        ws = changes.pop("ws", cluster.ws)
        if "idle" in changes:
            pools = {"local": LocalPool(idle=changes.pop("idle"))}
            ws = replace(ws, cluster=ClusterConfig(pools=pools))
        running = Running(ws, node, replace(FAST, **changes))
        begun.append(running)
        return running

    yield begin
    for running in begun:
        if running.thread.is_alive():
            running.tell_to_leave(cluster.ws.store)
            running.thread.join(20)
            assert not running.thread.is_alive()
