"""The runner as a function that is called: any event, bounded, in any number of copies."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from burst.core.clock import ManualClock
from burst.core.model import Allocation, DrainCause, Node, Trial
from burst.core.states import AllocationState, TrialState
from burst.core.store.port import Put
from burst.core.workspace import open_workspace
from burst.runner import lambda_handler
from burst.runner.agent.site import nodes_folder
from burst.runner.lambda_handler import LONGEST_S, drive, handler, noticed_by, seconds_for
from burst.runner.loop import Runner
from tests.runner.house import House, forever

STREAM = {"Records": [{"eventSource": "aws:dynamodb", "eventName": "INSERT"}]}
SCHEDULE = {"source": "aws.events", "detail-type": "Scheduled Event"}
STATE_CHANGE = {
    "source": "aws.ec2",
    "detail-type": "EC2 Instance State-change Notification",
    "detail": {"instance-id": "i-1", "state": "terminated"},
}


def warning(instance: str, time: str = "2026-11-30T03:00:00Z") -> dict[str, Any]:
    return {
        "source": "aws.ec2",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "time": time,
        "detail": {"instance-id": instance, "instance-action": "terminate"},
    }


class Left:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self._seconds * 1000)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, script=forever)


def test_a_call_never_outlasts_what_the_function_has_left() -> None:
    assert seconds_for(None) == LONGEST_S
    assert seconds_for(Left(900)) == LONGEST_S
    assert seconds_for(Left(30)) == 20.0
    assert seconds_for(Left(1)) == 0.0


@pytest.mark.parametrize("event", [STREAM, SCHEDULE, STATE_CHANGE, {}], ids=str)
def test_whatever_calls_it_it_reconciles(house: House, event: dict[str, Any]) -> None:
    house.submit()
    assert drive(house.runner, event, 0.0)["passes"] == 1
    assert house.store.live(Node) or house.trials()


def test_with_nothing_to_do_it_returns_at_once(house: House) -> None:
    before = house.clock.monotonic()
    assert drive(house.runner, SCHEDULE, 50.0)["passes"] == 1
    assert house.clock.monotonic() == before


def test_while_something_is_live_it_stays_and_comes_back_in_time(house: House) -> None:
    house.submit()
    before = house.clock.monotonic()
    drive(house.runner, SCHEDULE, 50.0)
    assert 45.0 <= house.clock.monotonic() - before <= 51.0


def test_a_silent_agent_is_found_within_one_call(house: House) -> None:
    house.submit()
    house.run(5)
    (node,) = house.store.live(Node)
    house.silent.add(node.id)
    (allocation,) = house.store.live(Allocation)
    drive(house.new_runner(), SCHEDULE, 50.0)
    assert house.store.get(Allocation, allocation.id).state is AllocationState.LOST
    assert house.trial().state is TrialState.WAITING


def test_a_warning_drains_the_node_and_what_runs_there(house: House) -> None:
    house.submit()
    house.run(5)
    (node,) = house.store.live(Node)
    house.store.commit(Put(node.model_copy(update={"handle": {**node.handle, "instance": "i-7"}})))
    at = house.clock.now() + 120
    house.deaf = True
    house.runner.hear_notice("i-7", at)
    house.runner.hear_notice("i-7", at + 60)
    house.runner.hear_notice("i-other", at)
    noticed = house.store.get(Node, node.id)
    assert noticed.noticed == house.clock.now()
    assert (noticed.reclaim_at, noticed.draining is not None) == (at, True)
    (allocation,) = house.store.live(Allocation)
    assert allocation.drain is not None
    assert allocation.drain.cause is DrainCause.NOTICE
    assert allocation.drain.deadline == at - 15
    house.deaf = False
    house.run(5)
    others = [each for each in house.store.live(Node) if each.id != node.id]
    assert others, "a replacement is asked for"


def test_of_a_short_warning_half_is_kept_for_leaving(house: House) -> None:
    house.submit()
    house.run(5)
    (node,) = house.store.live(Node)
    house.store.commit(Put(node.model_copy(update={"handle": {**node.handle, "instance": "i-7"}})))
    house.runner.hear_notice("i-7", house.clock.now() + 10)
    (allocation,) = house.store.live(Allocation)
    assert allocation.drain is not None
    assert allocation.drain.deadline == house.clock.now() + 5


def test_only_a_warning_of_ec2_is_a_notice() -> None:
    clock = ManualClock()
    for event in (STREAM, SCHEDULE, STATE_CHANGE, {}, warning("")):
        assert noticed_by(event, clock) is None
    assert noticed_by(warning("i-1"), clock) == ("i-1", 1796007720.0)
    assert noticed_by(warning("i-1", "soon"), clock) == ("i-1", clock.now() + 120)


def test_any_number_of_calls_at_once_do_no_harm(tmp_path: Path) -> None:
    house = House(tmp_path, nodes=2)
    for _ in range(3):
        house.submit()
    for _ in range(30):
        calls = [
            threading.Thread(target=drive, args=(house.new_runner(), STREAM, 0.0))
            for _ in range(3)
        ]
        for call in calls:
            call.start()
        for call in calls:
            call.join()
        house.agents()
        house.check()
        house.clock.advance(1.0)
        if house.over():
            break
    assert house.over()


def test_it_opens_what_its_environment_names_and_keeps_it_between_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lambda_handler, "_runner", None)
    monkeypatch.setenv("BURST_CLUSTER", "blobs:cluster/burst.yaml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BURST_CLUSTER")
    ws = open_workspace()
    monkeypatch.setenv("BURST_CLUSTER", "blobs:cluster/burst.yaml")
    ws.blobs.put("cluster/burst.yaml", b"cluster: one\n")
    assert handler(SCHEDULE, Left(60)) == {"passes": 1, "noticed": ""}
    first = lambda_handler._runner
    assert isinstance(first, Runner)
    handler(SCHEDULE, Left(60))
    assert lambda_handler._runner is first
    ws.blobs.put("cluster/burst.yaml", b"cluster: two\n")
    handler(SCHEDULE, Left(60))
    assert lambda_handler._runner is not first


def test_no_agent_is_started_on_the_machine_of_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a node asked for: a trial that may run nowhere else waits for a person's machine."""
    monkeypatch.setattr(lambda_handler, "_runner", None)
    monkeypatch.chdir(tmp_path)
    ws = open_workspace()
    house = House(tmp_path)
    ws.store.commit(Put(house.submit().model_copy(update={"version": 0})))
    for _ in range(5):
        handler(SCHEDULE, Left(0))
    [trial] = ws.store.live(Trial)
    assert trial.state is TrialState.WAITING
    assert ws.store.live(Node) == []
    assert not nodes_folder(ws.home).exists()
    ws.store.close()
