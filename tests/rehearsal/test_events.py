"""EC2's events have AWS's form, reach whom the account's rules name, and hold nobody up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burst.core.testing.ministack import ministack
from burst.runner.lambda_handler import NOTICE_S, noticed_by
from burst.runner.rehearsal.ec2.events import (
    EventBridge,
    calls_for,
    should_be_rebalanced,
    state_changed,
    will_be_interrupted,
)
from burst.runner.rehearsal.ec2.machine import State
from tests.rehearsal.lab import client, lab, until

ZONE, AT = "us-east-1b", 1_764_480_000.0
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:runner"
RUNNING = state_changed("i-1", State.RUNNING, ZONE, AT)
WARNING = will_be_interrupted("i-1", ZONE, AT)


class At:
    """A clock that is not asked."""

    def now(self) -> float:
        raise AssertionError

    monotonic = sleep = now


def test_a_change_of_state_is_told_as_ec2_tells_it() -> None:
    assert {key: value for key, value in RUNNING.items() if key != "id"} == {
        "version": "0",
        "detail-type": "EC2 Instance State-change Notification",
        "source": "aws.ec2",
        "account": "123456789012",
        "time": "2025-11-30T05:20:00Z",
        "region": "us-east-1",
        "resources": ["arn:aws:ec2:us-east-1:123456789012:instance/i-1"],
        "detail": {"instance-id": "i-1", "state": "running"},
    }


def test_a_warning_is_told_as_ec2_tells_it_and_the_handler_understands_it() -> None:
    assert WARNING["detail-type"] == "EC2 Spot Instance Interruption Warning"
    assert WARNING["resources"] == ["arn:aws:ec2:us-east-1b:instance/i-1"]
    assert WARNING["detail"] == {"instance-id": "i-1", "instance-action": "terminate"}
    clock: Any = At()
    assert noticed_by(WARNING, clock) == ("i-1", AT + NOTICE_S)
    assert noticed_by(RUNNING, clock) is None
    assert noticed_by(should_be_rebalanced("i-1", ZONE, AT), clock) is None


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack(tmp_path_factory.mktemp("aws") / "log") as url:
        yield url


@pytest.fixture
def bus(aws: str) -> Iterator[Any]:
    found = client("events", aws)
    yield found
    for rule in found.list_rules()["Rules"]:
        targets = found.list_targets_by_rule(Rule=rule["Name"])["Targets"]
        ids = [each["Id"] for each in targets]
        if ids:
            found.remove_targets(Rule=rule["Name"], Ids=ids)
        found.delete_rule(Name=rule["Name"])
    found.close()


def rule(bus: Any, pattern: dict[str, Any] | None, **more: Any) -> None:
    said = {"EventPattern": json.dumps(pattern)} if pattern else {}
    bus.put_rule(Name="rule", **said, **more)
    bus.put_targets(Rule="rule", Targets=[{"Id": "runner", "Arn": FUNCTION}])


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ({"source": ["aws.ec2"]}, True),
        ({"source": ["aws.s3"]}, False),
        ({"source": [{"prefix": "aws."}], "detail": {"state": ["running", "terminated"]}}, True),
        ({"source": ["aws.ec2"], "detail": {"state": ["terminated"]}}, False),
        ({"detail": {"state": [{"anything-but": ["running"]}]}}, False),
        ({"detail": {"state": [{"exists": True}]}}, True),
        ({"detail": {"instance-action": [{"exists": True}]}}, False),
        (
            {"source": ["aws.ec2"], "detail-type": ["EC2 Instance State-change Notification"]},
            True,
        ),
    ],
)
def test_a_function_is_called_if_the_pattern_of_its_rule_matches(
    bus: Any, pattern: dict[str, Any], matches: bool
) -> None:
    rule(bus, pattern)
    called = list(calls_for(RUNNING, bus))
    assert [each.function for each in called] == ([FUNCTION] if matches else [])
    assert all(json.loads(each.payload) == RUNNING for each in called)


def test_no_rule_calls_nobody(bus: Any) -> None:
    assert list(calls_for(WARNING, bus)) == []


def test_a_rule_that_is_disabled_or_has_a_schedule_calls_nobody(bus: Any) -> None:
    rule(bus, {"source": ["aws.ec2"]}, State="DISABLED")
    assert list(calls_for(WARNING, bus)) == []
    bus.delete_rule(Name="rule", Force=True)
    rule(bus, None, ScheduleExpression="rate(1 minute)")
    assert list(calls_for(WARNING, bus)) == []


def test_what_a_target_says_itself_is_what_it_hears(bus: Any) -> None:
    rule(bus, {"source": ["aws.ec2"]})
    bus.put_targets(
        Rule="rule",
        Targets=[
            {"Id": "runner", "Arn": FUNCTION, "Input": '{"wake": true}'},
            {"Id": "mail", "Arn": "arn:aws:sns:us-east-1:123456789012:mail"},
        ],
    )
    assert [each.payload for each in calls_for(WARNING, bus)] == ['{"wake": true}']


def test_a_bus_that_is_not_there_holds_nobody_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bridge = EventBridge("http://127.0.0.1:9")
    bridge.put(WARNING)
    until(lambda: "nobody heard EC2 Spot" in caplog.text, "the warning")
    bridge.put(RUNNING)
    until(lambda: "nobody heard EC2 Instance" in caplog.text, "the next one")


def test_a_machine_lives_and_ends_though_nobody_listens(tmp_path: Path) -> None:
    with lab(tmp_path, events="http://127.0.0.1:9") as cloud:
        [id] = cloud.launch()
        cloud.ec2.terminate_instances(InstanceIds=[id])
        assert cloud.gone(id).state == "terminated"
