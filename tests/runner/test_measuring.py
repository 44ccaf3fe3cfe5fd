"""What the runner tells alarms is true of the records, in the form that CloudWatch reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.aws import metrics
from burst.core.checkpoints.assurance.age import LATE_FACTOR, is_late, mark_of
from burst.core.errors import Unreachable
from burst.core.model import Trial
from burst.core.states import ExperimentState, TrialState
from burst.core.testing.examples import NOW, experiment, node, trial
from burst.runner import lambda_handler
from burst.runner.audit import GRACE_S
from burst.runner.lambda_handler import drive, tell
from burst.runner.measuring import Measured, Teller, checkpoint_age, measure, metric_line
from burst.runner.pools.fake import FakePool
from burst.runner.reconcile.strays import SWEEP_EVERY_S
from tests.runner.house import House, forever

IDLE = Measured(0, 0, 0, 0, 0.0, None)
BUSY = Measured(1, 2, 3, 4, 12.34567, 0.5)


def training(**fields: Any) -> Trial:
    given = {"state": TrialState.RUNNING, "training_since": NOW, "checkpoint_interval": 60.0}
    return trial(**{**given, **fields})


def test_machines_and_what_they_cost_are_those_that_are_up() -> None:
    nodes = [
        node(id="node-1", launched=NOW, price=1.5),
        node(id="node-2", launched=NOW, registered=NOW, ready=NOW, price=2.25),
        node(id="node-3", launched=NOW, terminating=NOW, price=1.0),
        node(id="node-4", launched=NOW, price=None),
        node(id="node-5", launched=None, price=8.0),  # asked for
    ]
    found = measure(nodes, [], [], 2, NOW)
    assert (found.nodes, found.dollars_per_hour, found.strays) == (4, 4.75, 2)


def test_who_waits_for_a_person_does_not_wait_for_slots() -> None:
    trials = [
        trial(0),
        trial(1, wanted=TrialState.PAUSED),
        trial(2, experiment="exp-1m3k9zq4w7d"),
        training(number=3),
        training(number=4),
        trial(5, state=TrialState.STOPPING),
    ]
    paused = experiment(id="exp-1m3k9zq4w7d", state=ExperimentState.PAUSED)
    found = measure([], trials, [experiment(), paused], 0, NOW)
    assert (found.waiting, found.running) == (1, 2)


def test_the_age_is_of_the_trial_that_is_worst_off() -> None:
    trials = [
        training(number=0, checkpoint_at=NOW + 100),
        training(number=1, checkpoint_interval=30.0),
        training(number=2, checkpoint_interval=None),
    ]
    assert measure([], trials, [], 0, NOW + 120).checkpoint_age == 4.0
    assert measure([], trials[:1], [], 0, NOW + 130).checkpoint_age == 0.5
    assert measure([], trials[2:], [], 0, NOW + 120).checkpoint_age is None


@given(
    interval=st.floats(0.1, 10_000.0),
    saved=st.none() | st.floats(-50.0, 5_000.0),
    after=st.floats(0.0, 30_000.0),
    found_late=st.booleans(),
)
def test_a_checkpoint_is_twice_too_old_exactly_if_it_is_called_late(
    interval: float, saved: float | None, after: float, found_late: bool
) -> None:
    seen = training(
        checkpoint_interval=interval, checkpoint_at=None if saved is None else NOW + saved
    )
    if found_late:
        seen = seen.model_copy(update={"checkpoint_late": mark_of(seen)})
    age = checkpoint_age(seen, NOW + after)
    assert age is not None
    assert age >= 0.0
    if abs(age - LATE_FACTOR) > 1e-9:  # where they are equal, the last bit of a float decides
        assert (age > LATE_FACTOR) == is_late(seen, NOW + after)


def test_the_line_is_what_cloudwatch_makes_metrics_of() -> None:
    line = metric_line("lab", BUSY, NOW + 0.25)
    assert "\n" not in line
    said = json.loads(line)
    about = said["_aws"]
    assert about["Timestamp"] == 1_800_000_000_250
    [directive] = about["CloudWatchMetrics"]
    assert directive["Namespace"] == metrics.NAMESPACE
    assert directive["Dimensions"] == [[metrics.CLUSTER_DIMENSION]]
    assert said[metrics.CLUSTER_DIMENSION] == "lab"
    named = {each["Name"]: said[each["Name"]] for each in directive["Metrics"]}
    assert named == {
        metrics.STRAYS: 1,
        metrics.NODES: 2,
        metrics.WAITING: 3,
        metrics.RUNNING: 4,
        metrics.DOLLARS_PER_HOUR: 12.3457,
        metrics.CHECKPOINT_AGE: 0.5,
    }
    units = {each["Name"]: each["Unit"] for each in directive["Metrics"]}
    assert units[metrics.STRAYS] == "Count"
    assert units[metrics.DOLLARS_PER_HOUR] == "None"


def test_what_is_not_known_is_not_told() -> None:
    said = json.loads(metric_line("lab", IDLE, NOW))
    assert metrics.CHECKPOINT_AGE not in said
    names = [each["Name"] for each in said["_aws"]["CloudWatchMetrics"][0]["Metrics"]]
    assert metrics.CHECKPOINT_AGE not in names


def test_an_idle_cluster_prints_nothing_but_that_it_has_become_idle() -> None:
    teller = Teller()
    told = [bool(teller.line("lab", each, NOW)) for each in (IDLE, BUSY, BUSY, IDLE, IDLE, BUSY)]
    assert told == [False, True, True, True, False, True]


def test_a_call_prints_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lambda_handler, "_teller", Teller())
    house = House(tmp_path, script=forever)
    tell(house.runner, house.clock)
    assert capsys.readouterr().out == ""
    house.submit()
    house.run(5)
    drive(house.runner, {}, 0.0)
    tell(house.runner, house.clock)
    [line] = capsys.readouterr().out.splitlines()
    said = json.loads(line)
    assert (said[metrics.NODES], said[metrics.RUNNING], said[metrics.STRAYS]) == (1, 1, 0)


def test_a_machine_of_nobody_is_counted_until_a_look_finds_it_gone(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.pool = FakePool("local", house.clock, costs=True)
    house.runner = house.new_runner()
    house.pool.make("i-stray", "launch-gone")
    house.settle()
    assert house.runner.strays == 0  # it may be an answer that is being taken in
    house.clock.advance(GRACE_S)
    house.settle()
    assert house.runner.strays == 1
    assert house.pool.alive == []
    house.clock.advance(SWEEP_EVERY_S)
    house.settle()
    assert house.runner.strays == 0


def test_a_call_does_not_fail_because_nothing_can_be_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        raise Unreachable("the table does not answer")

    house = House(tmp_path, script=forever)
    monkeypatch.setattr(lambda_handler, "look", silent)
    tell(house.runner, house.clock)
    assert capsys.readouterr().out == ""
