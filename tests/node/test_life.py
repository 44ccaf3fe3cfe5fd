"""Machines as processes, from their boot to their end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from burst.core.logs import read_logs
from burst.core.model import Allocation, Drain, DrainCause, Exit, ExitKind, Node
from burst.core.states import AllocationState, NodeState
from burst.core.store import update
from burst.runner.node import main
from tests.agent.conftest import CLOCK, Do, eventually
from tests.node.conftest import Fleet, Machine

TRAIN: Do = [("say", "step"), ("until_asked", 60)]
FleetOf = Callable[..., Fleet]


def _ready(fleet: Fleet, node: Node) -> Node:
    def probe() -> Node | None:
        found = fleet.node(node)
        return found if found.ready else None

    found: Node = eventually(probe)
    return found


def _training(fleet: Fleet) -> tuple[Node, Machine, Allocation]:
    (node,) = fleet.launch()
    machine = fleet.boot(node.launch)
    node = _ready(fleet, node)
    allocation = fleet.cluster.assign(node, TRAIN)
    running = fleet.cluster.reaches(allocation.id, AllocationState.RUNNING)
    return node, machine, running


def _events(fleet: Fleet, node: Node) -> list[str]:
    found = fleet.cluster.ws.store.events().events
    return [event.name.removeprefix("node.") for event in found if event.subject == node.id]


def test_a_machine_trains_hears_its_notice_leaves_with_its_work_safe_and_ends(
    fleet: Fleet,
) -> None:
    node, machine, allocation = _training(fleet)
    assert node.handle == {"instance": "i-0"}
    assert machine.sign("registered")
    assert machine.sign("renewed")

    at, began = machine.imds.notice(120), time.monotonic()
    eventually(lambda: fleet.node(node).noticed)
    assert time.monotonic() - began < 6
    assert machine.ended() == 0

    released = fleet.cluster.allocation(allocation.id)
    assert released.exit == Exit(kind=ExitKind.DRAINED)
    assert isinstance(released.drain, Drain)
    assert released.drain.cause is DrainCause.NOTICE
    assert released.drain.deadline is not None
    assert at - 20 < released.drain.deadline < at - 10
    left = fleet.node(node)
    assert left.reclaim_at == at
    assert left.state is NodeState.TERMINATING  # gone only when the pool says so
    assert _events(fleet, node) == ["launched", "ready", "noticed", "terminating"]
    assert [line.text for line in read_logs(fleet.cluster.ws.blobs, allocation.trial)] == ["step"]
    assert machine.shut_down == ["-h now"]


def test_a_machine_without_work_ends(fleet_of: FleetOf) -> None:
    fleet = fleet_of(idle="0.5s")
    (node,) = fleet.launch()
    machine = fleet.boot(node.launch)
    assert machine.ended() == 0
    assert machine.shut_down == ["-h now"]
    assert fleet.node(node).state is NodeState.TERMINATING
    assert "no work for" in machine.said


def test_a_machine_that_is_one_too_many_ends_without_touching_a_node(fleet: Fleet) -> None:
    (node,) = fleet.launch()
    first = fleet.boot(node.launch)
    _ready(fleet, node)
    surplus = fleet.boot(node.launch)
    assert surplus.ended() != 0
    assert surplus.shut_down == ["-h now"]
    assert "one too many" in surplus.said
    assert fleet.node(node).handle == {"instance": "i-0"}
    assert first.agent.poll() is None


def test_a_machine_told_to_leave_ends_after_its_work(fleet: Fleet) -> None:
    node, machine, allocation = _training(fleet)

    def drain(record: Node) -> Node:
        return record.model_copy(update={"draining": CLOCK.now()})

    update(fleet.cluster.ws.store, Node, node.id, drain)
    assert machine.ended() == 0
    assert fleet.cluster.allocation(allocation.id).exit == Exit(kind=ExitKind.DRAINED)
    assert machine.shut_down == ["-h now"]


def test_sigterm_drains_and_ends_the_machine(fleet: Fleet) -> None:
    _, machine, allocation = _training(fleet)
    machine.agent.send_signal(signal.SIGTERM)
    assert machine.ended() == 0
    assert fleet.cluster.allocation(allocation.id).exit == Exit(kind=ExitKind.DRAINED)
    assert machine.shut_down == ["-h now"]


def test_a_machine_of_another_cluster_ends_and_says_why(fleet: Fleet) -> None:
    (node,) = fleet.launch()
    (fleet.folder / "burst.yaml").write_text(
        (fleet.folder / "burst.yaml").read_text().replace("vision", "other")
    )
    machine = fleet.boot(node.launch)
    assert machine.ended() != 0
    assert "belongs to cluster 'vision'" in machine.said
    assert machine.shut_down == ["-h now"]
    assert fleet.node(node).handle == {}


def test_a_node_imports_nothing_heavy_before_it_is_needed() -> None:
    modules = [path.stem for path in Path(main.__file__).parent.glob("[a-z]*.py")]
    program = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module('burst.runner.node.' + name)\n"
        "print(sorted({'torch', 'boto3', 'botocore', 'numpy', 's3fs'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
