"""How long a machine stays: while its store is away, after a failure, and for how long at most."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burst.core.clock import SystemClock
from burst.core.config.cluster import AwsPool, LocalPool, StaticPool
from burst.core.errors import BurstError, Unreachable
from burst.core.model import Exit, ExitKind, Lease, Node
from burst.core.states import AllocationState, NodeState, Reason
from burst.core.store import update
from burst.runner.agent.running.sweep import marked
from burst.runner.agent.serving.stay import PLAN_FIRST_S, Situation, Stay, reason_to_leave
from burst.runner.node import main, power
from burst.runner.node.imds import Imds
from burst.runner.node.instance import Instance
from tests.agent.conftest import CLOCK, FAST, Do, eventually
from tests.node.conftest import Fleet, fake_shutdown
from tests.node.imds_server import ImdsServer, iso

FleetOf = Callable[..., Fleet]
TRAIN: Do = [("say", "step"), ("until_asked", 60)]


class Away:
    """A store that can be out of reach."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.away = threading.Event()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if not callable(real):
            return real

        def call(*args: Any, **options: Any) -> Any:
            if self.away.is_set():
                raise Unreachable("the store is away")
            return real(*args, **options)

        return call


class Staying:
    """A node's whole stay in a thread of this process, on a store that can be away."""

    def __init__(self, fleet: Fleet, imds: ImdsServer, patience: float, lease: float) -> None:
        self.store = Away(fleet.cluster.ws.store)
        self.imds = imds
        self.reason: Reason | None = None
        self.error: BurstError | None = None
        (node,) = fleet.launch()
        ws = replace(fleet.cluster.ws, store=self.store)
        self.node = main.find_node(ws, node.launch, "spot", "i-1", SystemClock(), 5.0)
        metadata = Imds(imds.url)
        environ = {"BURST_RUN": str(fleet.folder / "run"), "BURST_SYS": str(fleet.folder)}

        def run() -> None:
            host = Instance(metadata.identity(), metadata, SystemClock(), environ=environ)
            settings = replace(FAST, lease=lease)
            try:
                with host:
                    self.reason = main.stay(ws, self.node, host, SystemClock(), settings, patience)
            except BurstError as error:
                self.error = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def ended(self) -> Reason | None:
        self.thread.join(60)
        assert not self.thread.is_alive()
        return self.reason


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Staying]]:
    monkeypatch.setattr(main, "SETTLE_S", 0.0)
    monkeypatch.setattr(main, "_PAUSE_S", 0.05)
    monkeypatch.setattr("burst.runner.agent.attempts.attempt._RETRY_S", 0.05)
    monkeypatch.setattr("burst.runner.agent.attempts.releasing._RETRY_S", 0.05)
    begun: list[Staying] = []
    with ImdsServer("i-1") as imds:

        def start(fleet: Fleet, patience: float = 60.0, lease: float = 1.5) -> Staying:
            begun.append(Staying(fleet, imds, patience, lease))
            return begun[-1]

        yield start
        imds.notice(5)
        for staying in begun:
            staying.store.away.clear()
            staying.ended()


def test_a_machine_whose_store_was_away_stops_safely_and_goes_on_as_the_same_node(
    fleet: Fleet, begin: Callable[..., Staying]
) -> None:
    staying = begin(fleet)
    node = staying.node
    eventually(lambda: fleet.node(node).idle_since)
    first = fleet.cluster.assign(node, TRAIN)
    fleet.cluster.reaches(first.id, AllocationState.RUNNING)

    staying.store.away.set()
    lease = fleet.cluster.ws.store.get(Lease, node.id)
    eventually(lambda: first.id not in {each.name for each in threading.enumerate()})
    assert fleet.node(node).state is NodeState.READY
    staying.store.away.clear()

    eventually(lambda: fleet.cluster.ws.store.get(Lease, node.id).version > lease.version)
    released = fleet.cluster.released(first.id)
    assert released.exit is not None
    assert released.exit.kind in (ExitKind.DRAINED, ExitKind.INFRASTRUCTURE)
    second = fleet.cluster.assign(node, [("say", "again"), ("outcome", "completed")])
    again = fleet.cluster.released(second.id)
    assert again.exit is not None
    assert again.exit.kind is ExitKind.COMPLETED
    assert fleet.node(node).state is NodeState.READY


def test_a_notice_drains_what_runs_though_the_store_is_away_and_is_told_when_it_is_back(
    fleet: Fleet, begin: Callable[..., Staying]
) -> None:
    staying = begin(fleet, lease=60.0)
    eventually(lambda: fleet.node(staying.node).idle_since)
    allocation = fleet.cluster.assign(staying.node, TRAIN)
    fleet.cluster.reaches(allocation.id, AllocationState.RUNNING)
    staying.store.away.set()
    at = staying.imds.notice(120)
    eventually(lambda: not list(marked((allocation.id,))))
    assert fleet.node(staying.node).noticed is None
    staying.store.away.clear()
    reason = staying.ended()
    assert reason is not None
    assert reason.code == "notice"
    released = fleet.cluster.allocation(allocation.id)
    assert released.exit == Exit(kind=ExitKind.DRAINED)
    assert fleet.node(staying.node).reclaim_at == at


def test_a_machine_does_not_wait_for_its_store_for_ever(
    fleet: Fleet, begin: Callable[..., Staying]
) -> None:
    staying = begin(fleet, patience=0.5)
    eventually(lambda: fleet.node(staying.node).idle_since)
    staying.store.away.set()
    assert staying.ended() is None
    assert isinstance(staying.error, Unreachable)


def test_a_machine_that_was_given_up_while_its_store_was_away_ends(
    fleet: Fleet, begin: Callable[..., Staying]
) -> None:
    staying = begin(fleet)
    eventually(lambda: fleet.node(staying.node).idle_since)
    staying.store.away.set()

    def end(record: Node) -> Node:
        return record.model_copy(update={"terminating": CLOCK.now()})

    update(fleet.cluster.ws.store, Node, staying.node.id, end)
    eventually(lambda: "lease" not in {each.name for each in threading.enumerate()})
    staying.store.away.clear()
    reason = staying.ended()
    assert reason is not None
    assert reason.code == "gone"


def test_a_revoked_lease_ends_the_machine(fleet: Fleet, begin: Callable[..., Staying]) -> None:
    staying = begin(fleet)
    eventually(lambda: fleet.node(staying.node).idle_since)

    def revoke(record: Lease) -> Lease:
        return record.model_copy(update={"revoked": True})

    update(fleet.cluster.ws.store, Lease, staying.node.id, revoke)
    reason = staying.ended()
    assert reason is not None
    assert reason.code == "gone"
    assert fleet.node(staying.node).state is NodeState.TERMINATING


# --- as processes -------------------------------------------------------------------------------


def test_the_machine_of_an_attempt_that_failed_stays_for_a_while_without_new_work(
    fleet_of: FleetOf,
) -> None:
    fleet = fleet_of(keep_on_error="2s", idle="0.1s")
    (node,) = fleet.launch()
    allocation = fleet.cluster.assign(node, [("fail", "bad")])
    machine = fleet.boot(node.launch)
    exit = fleet.cluster.released(allocation.id).exit
    assert exit is not None
    assert exit.kind is ExitKind.CRASHED
    kept = eventually(lambda: (found := fleet.node(node)).cordoned and found)
    assert kept.facts["kept_until"] - kept.cordoned == pytest.approx(2.0, abs=0.5)
    assert kept.state is NodeState.READY
    assert machine.ended() == 0
    assert machine.shut_down == ["-h now"]
    left = fleet.node(node)
    assert left.terminating is not None
    assert left.terminating >= kept.facts["kept_until"] - 0.1


def test_a_machine_that_is_too_old_drains_first(fleet_of: FleetOf) -> None:
    fleet = fleet_of(max_life="3s")
    (node,) = fleet.launch()
    allocation = fleet.cluster.assign(node, TRAIN)
    machine = fleet.boot(node.launch)
    assert machine.ended() == 0
    released = fleet.cluster.allocation(allocation.id)
    assert released.exit is not None
    assert released.exit.kind is ExitKind.DRAINED
    assert "max_life" in machine.said


def test_the_oldest_machines_stay_where_the_pool_wants_some(fleet_of: FleetOf) -> None:
    fleet = fleet_of(idle="0.3s", min_nodes=1)
    first, second = fleet.launch(2)
    stays, leaves = fleet.boot(first.launch), fleet.boot(first.launch)
    eventually(lambda: stays.shut_down or leaves.shut_down)
    nodes = sorted((fleet.node(node) for node in (first, second)), key=lambda node: node.id)
    assert nodes[0].draining is None
    assert nodes[1].draining is not None


def test_a_recommendation_to_move_away_is_told_and_nothing_leaves(fleet: Fleet) -> None:
    (node,) = fleet.launch()
    machine = fleet.boot(node.launch)
    text = json.dumps({"noticeTime": iso(1_800_000_000)})
    machine.imds.answers["events/recommendations/rebalance"] = text

    def told() -> bool:
        events = fleet.cluster.ws.store.events().events
        return "node.rebalance" in [event.name for event in events]

    eventually(told)
    found = fleet.node(node)
    assert (found.state, found.cordoned, found.noticed) == (NodeState.READY, None, None)


def test_a_machine_that_is_not_fit_says_why_and_ends(fleet: Fleet) -> None:
    gpu = fleet.folder / "sys" / "bus" / "pci" / "devices" / "0000:00:1e.0"
    gpu.mkdir(parents=True)
    (gpu / "vendor").write_text("0x10de\n")
    (gpu / "device").write_text("0x2330\n")
    (gpu / "class").write_text("0x030200\n")
    (node,) = fleet.launch()
    machine = fleet.boot(node.launch, BURST_SYS=str(fleet.folder / "sys"))
    assert machine.ended() != 0
    found = fleet.node(node)
    (problem,) = found.facts["problems"]
    assert "1 NVIDIA GPUs are on the bus and nvidia-smi shows 0" in problem
    assert found.ready is None
    assert found.state is NodeState.TERMINATING
    assert machine.shut_down == ["-h now"]


# --- ending, and deciding -----------------------------------------------------------------------


@pytest.mark.parametrize("defect", [RuntimeError("a defect"), KeyboardInterrupt(), SystemExit(3)])
def test_whatever_breaks_in_the_agent_ends_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defect: BaseException
) -> None:
    programs = fake_shutdown(tmp_path)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")

    def live(*_: object) -> Reason:
        raise defect

    monkeypatch.setattr(main, "live", live)
    monkeypatch.setattr(main, "identify", lambda *_: None)
    if isinstance(defect, Exception):
        assert main.main() == 1
    else:
        with pytest.raises(type(defect)):
            main.main()
    assert (tmp_path / "shutdown-asked").read_text() == "-h now\n"


@pytest.mark.parametrize("tags", [None, {}, {"burst:cluster": "vision"}])
def test_a_machine_that_burst_has_not_launched_is_never_shut_down(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tags: dict[str, str] | None,
) -> None:
    """Whoever starts the program on a machine of their own is told, and keeps it."""
    monkeypatch.setenv("PATH", f"{fake_shutdown(tmp_path)}:/usr/bin:/bin")
    monkeypatch.setattr(main, "_IMDS_PATIENCE_S", 0.0)
    with ImdsServer("i-1", **(tags or {})) as imds:
        imds.failing = 404 if tags is None else 0
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", imds.url)
        assert main.main() != 0
    assert "Error: " in capsys.readouterr().err
    assert not (tmp_path / "shutdown-asked").exists()


def test_a_shutdown_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    does = f'[ "$(wc -l < "{tmp_path}/shutdown-asked")" -ge 3 ]'
    monkeypatch.setenv("PATH", f"{fake_shutdown(tmp_path, does)}:/usr/bin:/bin")
    monkeypatch.setattr(power, "_PAUSE_S", 0.0)
    assert power.end_machine(SystemClock())
    assert (tmp_path / "shutdown-asked").read_text() == "-h now\n" * 3


def test_what_a_pool_says_of_its_agents_is_taken_from_the_cluster_file() -> None:
    aws = AwsPool(instance_types=("c5.large",), max_nodes=2, min_nodes=1, keep_on_error=60.0)
    assert Stay.of(aws) == Stay(300.0 + PLAN_FIRST_S, 7 * 24 * 3600.0, 60.0, 1)
    brief = aws.model_copy(update={"idle": 2.0})
    assert Stay.of(brief).idle == 8.0
    assert Stay.of(LocalPool()) == Stay(60.0 + PLAN_FIRST_S)
    assert Stay.of(StaticPool(slots_per_node=1)) == Stay()


STAY = Stay(idle=60.0, max_life=1000.0, keep_on_error=300.0)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, None),
        ({"without_work": 60.0}, "idle"),
        ({"without_work": 60.0, "busy": True}, None),
        ({"age": 1000.0, "busy": True}, "old"),
        ({"age": 1000.0, "busy": True, "kept_for": 1.0}, "old"),
        ({"signalled": True, "busy": True, "kept_for": 1.0}, "signal"),
        ({"lease_lost": "gone", "busy": True, "kept_for": 1.0}, "lease"),
        ({"kept_for": 299.0, "without_work": 1000.0}, None),
        ({"kept_for": 300.0}, "kept"),
        ({"kept_for": 300.0, "busy": True}, None),
        ({"unauthorized": True}, "idle"),
        ({"unauthorized": True, "busy": True}, None),
    ],
)
def test_why_an_agent_leaves(changes: dict[str, Any], code: str | None) -> None:
    situation = replace(Situation(busy=False, without_work=0.0, age=0.0), **changes)
    reason = reason_to_leave(STAY, situation)
    assert (reason.code if reason else None) == code
