"""What the whole program registers: the rules that all of it keeps, and each component's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from moto.events.models import EventPattern

from burst.core.aws.metrics import (
    CHECKPOINT_AGE,
    DOLLARS_PER_HOUR,
    NAMESPACE,
    NODES,
    RUNNING,
    STRAYS,
    WAITING,
)
from burst.core.checkpoints.assurance.age import LATE_FACTOR
from burst.core.store.dynamodb.plan import plan
from burst.core.store.port import Append, Put
from burst.core.testing import examples
from burst.infra.components.function import HANDLER, TIMEOUT_S
from burst.infra.policies.place import Place
from burst.infra.policies.runner import runner_policy
from burst.infra.program import build
from burst.infra.settings import Settings
from burst.runner import lambda_handler
from burst.runner.measuring import Measured, metric_line
from tests.infra import rules
from tests.infra.evaluating import Request, is_allowed
from tests.infra.registering import (
    ACCOUNT,
    Registered,
    arn_of,
    registered,
    settings_for,
    settings_of,
)

EVERYTHING = """nat: true
  endpoints: [images, sessions]
  github: [me/mine]
  email: [a@example.com, b@example.com]
  budget: {usd: 200, email: [a@example.com]}"""
CASES = {
    "the least": "",
    "everything": EVERYTHING,
    "without a function": "runner: here",
}


def program(settings: Settings) -> list[Registered]:
    return registered(lambda: build(settings))


@pytest.fixture(scope="module")
def whole() -> list[Registered]:
    return program(settings_of(EVERYTHING))


def of(found: Sequence[Registered], type: str) -> list[Registered]:
    return [each for each in found if each.type.partition("/")[2].partition(":")[2] == type]


def one(found: Sequence[Registered], type: str, name: str = "") -> dict[str, Any]:
    (each,) = [each for each in of(found, type) if not name or each.name == name]
    return each.inputs


def _allowing(principal: str, action: str) -> str:
    statement = {"Sid": "x", "Effect": "Allow", "Action": action}
    return json.dumps({"Statement": [{**statement, "Principal": {"Service": principal}}]})


# --- rules ---


@pytest.mark.parametrize("case", CASES)
def test_every_rule_holds_for_the_whole_program(case: str) -> None:
    found = program(settings_of(CASES[case]))
    broken = [text for rule in rules.ALL for text in rule(found)]
    assert not broken


BREAKS: dict[rules.Rule, dict[str, Any]] = {
    rules.no_wildcard_principal: {"assumeRolePolicy": _allowing("*", "sts:AssumeRole")},
    rules.no_wildcard_action: {"policy": _allowing("ec2.amazonaws.com", "s3:*")},
    rules.no_open_ingress: {"cidrIpv4": "0.0.0.0/0"},
    rules.all_encrypted: {"serverSideEncryption": {"enabled": False}},
    rules.buckets_are_private: {"restrictPublicBuckets": False},
    rules.metadata_needs_a_token: {"metadataOptions": {"httpTokens": "optional"}},
    rules.machines_end_when_they_shut_down: {"instanceInitiatedShutdownBehavior": "stop"},
    rules.records_can_be_had_back: {"deletionProtectionEnabled": False},
    rules.functions_are_called_by_own_rules: {"sourceArn": None},
    rules.logs_are_forgotten: {"retentionInDays": None},
    rules.no_secret_in_sight: {"keyName": "mine"},
    rules.all_tagged: {"tags": {}},
}
"""Inputs that break a rule, wherever they are put."""


@pytest.mark.parametrize("rule", rules.ALL, ids=lambda rule: rule.__name__)
def test_every_rule_can_be_broken(rule: rules.Rule, whole: list[Registered]) -> None:
    assert rule([replace(each, inputs={**each.inputs, **BREAKS[rule]}) for each in whole])


@pytest.mark.parametrize(
    "beside",
    [
        "s3/bucketServerSideEncryptionConfiguration",
        "s3/bucketPublicAccessBlock",
        "s3/bucketOwnershipControls",
        "s3/bucketPolicy",
        "s3/bucketVersioning",
    ],
)
def test_what_a_bucket_needs_beside_it_is_missed(beside: str, whole: list[Registered]) -> None:
    left = [each for each in whole if not each.type.startswith(f"aws:{beside}:")]
    assert len(left) < len(whole)
    assert [text for rule in rules.ALL for text in rule(left)]


# --- the function ---


def test_the_function_is_the_runner_with_time_to_finish_a_pass(whole: list[Registered]) -> None:
    module, _, name = HANDLER.rpartition(".")
    assert getattr(import_module(module), name) is lambda_handler.handler
    function = one(whole, "Function")
    assert function["timeout"] == TIMEOUT_S
    assert lambda_handler.LONGEST_S + lambda_handler.RESERVE_S <= TIMEOUT_S
    assert (function["runtime"], function["architectures"]) == ("python3.12", ["arm64"])
    assert function["environment"]["variables"] == {
        "BURST_STORE": "dynamodb://burst-lab?region=us-east-1",
        "BURST_BLOBS": f"s3://burst-lab-{ACCOUNT}-us-east-1?region=us-east-1",
        "BURST_CLUSTER": "blobs:cluster/burst.yaml",
    }


def test_what_the_function_prints_goes_where_it_may_write(whole: list[Registered]) -> None:
    name = one(whole, "LogGroup")["name"]
    assert one(whole, "Function")["loggingConfig"]["logGroup"] == name
    place = Place.of(settings_of())
    stream = place.arn("logs", f"log-group:{name}:log-stream:2026/11/30/x")
    assert is_allowed([runner_policy(settings_of())], Request("logs:PutLogEvents", stream))


@pytest.mark.parametrize(("executions", "kept"), [(10, None), (109, None), (110, 5), (1000, 5)])
def test_calls_are_kept_for_it_only_where_the_account_has_some_to_spare(
    executions: int, kept: int | None
) -> None:
    function = one(program(settings_of(executions=executions)), "Function")
    assert function.get("reservedConcurrentExecutions") == kept


def records(*writes: Any) -> list[dict[str, Any]]:
    """What the table's stream tells of a commit that makes and changes nothing else."""
    actions = plan(writes, "commit", 1_700_000_000.0).transaction("burst-lab", 3)
    return [
        {
            "eventName": "INSERT",
            "dynamodb": {"Keys": {key: item[key] for key in ("pk", "sk")}},
        }
        for action in actions
        for of in action.values()
        for item in [of.get("Item") or of["Key"]]
    ]


def test_a_new_experiment_calls_the_function_once_and_nothing_else_does(
    whole: list[Registered],
) -> None:
    (told,) = one(whole, "EventSourceMapping")["filterCriteria"]["filters"]
    pattern: Any = EventPattern.load(told["pattern"])
    new, event = examples.experiment(version=0), examples.event()
    submitted = records(Put(new), Append(event))
    assert [pattern.matches_event(each) for each in submitted].count(True) == 1
    forgotten = [{**each, "eventName": "REMOVE"} for each in submitted]
    others = records(
        Put(examples.experiment(version=3)),
        Put(examples.trial(version=0)),
        Put(examples.node(version=0)),
        Append(event),
    )
    assert not any(pattern.matches_event(each) for each in (*forgotten, *others))


def test_a_record_that_cannot_be_handled_blocks_nothing(whole: list[Registered]) -> None:
    mapping, later = one(whole, "EventSourceMapping"), one(whole, "FunctionEventInvokeConfig")
    assert mapping["bisectBatchOnFunctionError"] is True
    assert mapping["startingPosition"] == "LATEST"
    assert mapping["maximumRecordAgeInSeconds"] == later["maximumEventAgeInSeconds"] == 60
    assert mapping["maximumRetryAttempts"] == later["maximumRetryAttempts"] == 1


EVENTS: dict[str, tuple[str, dict[str, str]]] = {
    "warning": ("EC2 Spot Instance Interruption Warning", {"instance-action": "terminate"}),
    "ending": ("EC2 Instance State-change Notification", {"state": "terminated"}),
    "": ("EC2 Instance State-change Notification", {"state": "running"}),
}


@pytest.mark.parametrize("rule", EVENTS)
def test_an_event_of_ec2_is_one_rules(rule: str, whole: list[Registered]) -> None:
    kind, detail = EVENTS[rule]
    event: Any = {"source": "aws.ec2", "detail-type": kind, "detail": detail}
    patterns = {
        each.name: EventPattern.load(each.inputs["eventPattern"])
        for each in of(whole, "EventRule")
        if "eventPattern" in each.inputs
    }
    assert [name for name, each in patterns.items() if each.matches_event(event)] == [
        name for name in (rule,) if name
    ]


def test_every_rule_calls_the_function_and_may(whole: list[Registered]) -> None:
    rules_there = {each.name: each for each in of(whole, "EventRule")}
    assert rules_there.keys() == {"schedule", "warning", "ending"}
    assert rules_there["schedule"].inputs["scheduleExpression"] == "rate(1 minute)"
    function = next(each for each in of(whole, "Function"))
    for name, rule in rules_there.items():
        target, may = one(whole, "EventTarget", name), one(whole, "Permission", name)
        assert target["rule"] == rule.inputs["name"]
        assert target["arn"] == arn_of(function.type, function.name)
        assert may["sourceArn"] == arn_of(rule.type, rule.name)
        assert may["function"] == function.inputs["name"]
        assert may["principal"] == "events.amazonaws.com"


# --- access ---


def test_each_role_is_for_one_service_and_each_policy_is_there(whole: list[Registered]) -> None:
    roles = {each.name: each.inputs for each in of(whole, "Role")}
    assert {name: each["name"] for name, each in roles.items()} == {
        "node": "burst-lab-node",
        "runner": "burst-lab-runner",
        "github": "burst-lab-github",
    }
    assert one(whole, "InstanceProfile")["name"] == "burst-lab-node"
    people = {each.name: each.inputs["name"] for each in of(whole, "Policy")}
    wanted = ("viewer", "auditor", "submitter", "admin")
    assert people == {person: f"burst-lab-{person}" for person in wanted}


def test_workflows_are_submitters_for_as_long_as_a_job_may_last(whole: list[Registered]) -> None:
    attached = one(whole, "RolePolicyAttachment")
    (submitter,) = [each for each in of(whole, "Policy") if each.name == "submitter"]
    assert attached["policyArn"] == arn_of(submitter.type, submitter.name)
    assert one(whole, "Role", "github")["maxSessionDuration"] == 6 * 3600


def test_machines_of_ones_own_share_table_bucket_and_runner_and_bring_their_network() -> None:
    file = "cluster: lab\naws: {region: us-east-1}\n"
    own = f"{file}pools: {{onprem: {{kind: static, slots_per_node: 8}}}}\n"
    found = program(settings_for(own))
    assert len(of(found, "Table")) == len(of(found, "Bucket")) == len(of(found, "Function")) == 1
    assert not {"Vpc", "Subnet", "LaunchTemplate"} & {each.type.split(":")[-1] for each in found}


def test_what_is_not_asked_for_is_not_made() -> None:
    least = program(settings_of())
    assert not of(least, "RolePolicyAttachment")
    for type in ("Topic", "TopicSubscription", "Budget", "NatGateway"):
        assert not of(least, type)
    alone = program(settings_of("runner: here\n  email: [a@example.com]"))
    for type in ("Function", "EventRule", "MetricAlarm", "Dashboard", "Topic", "LogGroup"):
        assert not of(alone, type)
    assert [each.name for each in of(alone, "Role")] == ["node"]


# --- watching ---


def test_alarms_look_at_what_the_runner_measures_and_tell_those_who_are_named(
    whole: list[Registered],
) -> None:
    measured = Measured(1, 1, 1, 1, dollars_per_hour=1.0, checkpoint_age=1.0)
    printed = json.loads(metric_line("lab", measured, 0.0))
    (told,) = printed["_aws"]["CloudWatchMetrics"]
    names = {each["Name"] for each in told["Metrics"]}
    alarms = {each.name: each.inputs for each in of(whole, "MetricAlarm")}
    assert alarms.keys() == {"leak", "checkpoint", "failing", "silent"}
    topic = of(whole, "Topic")[0]
    for alarm in alarms.values():
        assert alarm["alarmActions"] == [arn_of(topic.type, topic.name)]
        if alarm["namespace"] == told["Namespace"]:
            assert alarm["metricName"] in names
            assert [list(alarm["dimensions"])] == told["Dimensions"]
            assert alarm["dimensions"]["cluster"] == printed["cluster"]
        else:
            assert alarm["dimensions"] == {"FunctionName": one(whole, "Function")["name"]}
    emails = [each.inputs["endpoint"] for each in of(whole, "TopicSubscription")]
    assert sorted(emails) == ["a@example.com", "b@example.com"]


def test_an_idle_cluster_is_no_alarm_and_a_silent_function_is(whole: list[Registered]) -> None:
    missing = {each.name: each.inputs["treatMissingData"] for each in of(whole, "MetricAlarm")}
    assert [name for name, means in missing.items() if means == "breaching"] == ["silent"]


def test_a_leak_is_told_after_a_quarter_of_an_hour_and_a_late_checkpoint_when_it_is_late(
    whole: list[Registered],
) -> None:
    leak, late = one(whole, "MetricAlarm", "leak"), one(whole, "MetricAlarm", "checkpoint")
    assert leak["period"] * leak["evaluationPeriods"] == 15 * 60
    assert (leak["comparisonOperator"], leak["threshold"]) == ("GreaterThanThreshold", 0)
    assert late["comparisonOperator"] == "GreaterThanOrEqualToThreshold"
    assert late["threshold"] == LATE_FACTOR


def test_the_dashboard_shows_all_that_is_measured(whole: list[Registered]) -> None:
    widgets = json.loads(one(whole, "Dashboard")["dashboardBody"])["widgets"]
    shown = {
        metric[1]
        for widget in widgets
        for metric in widget["properties"].get("metrics", [])
        if metric[0] == NAMESPACE and metric[2:] == ["cluster", "lab"]
    }
    assert shown == {STRAYS, CHECKPOINT_AGE, NODES, WAITING, RUNNING, DOLLARS_PER_HOUR}
    assert {each["properties"].get("region", "us-east-1") for each in widgets} == {"us-east-1"}
    alarms = {each.inputs["name"] for each in of(whole, "MetricAlarm")}
    named = [arn for each in widgets for arn in each["properties"].get("alarms", [])]
    assert {arn.rpartition(":")[2] for arn in named} == alarms


def test_the_budget_counts_what_carries_the_tag_and_tells_before_it_is_spent(
    whole: list[Registered],
) -> None:
    budget = one(whole, "Budget")
    assert (budget["limitAmount"], budget["limitUnit"]) == ("200.00", "USD")
    assert budget["costFilters"] == [{"name": "TagKeyValue", "values": ["user:burst:cluster$lab"]}]
    told = [(each["threshold"], each["notificationType"]) for each in budget["notifications"]]
    assert told == [(80, "ACTUAL"), (100, "ACTUAL"), (100, "FORECASTED")]
    for each in budget["notifications"]:
        assert each["subscriberEmailAddresses"] == ["a@example.com"]
