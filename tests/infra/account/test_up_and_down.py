"""A cluster's side of the account is built, changed, taken down, and built again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burst.cli.account.progress import Lines
from burst.core.aws.names import bucket_name, table_name, tag_list, tags_of
from burst.infra.engine.changes import Change
from tests.infra.account.conftest import ACCOUNT, OTHER_POOL, REGION, Person

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*has been deprecated in favor of:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""Pulumi's library for AWS warns of parts of its own; and where a program is broken off, Pulumi's
leaves an event loop open."""


def client(service: str) -> Any:
    from boto3.session import Session

    return Session().client(service, region_name=REGION)


def _delete_endpoint(person: Person, service: str) -> None:
    """By hand, behind burst's back."""
    ec2 = client("ec2")
    found = ec2.describe_vpc_endpoints(Filters=person.look().filters)["VpcEndpoints"]
    mine = [each["VpcEndpointId"] for each in found if each["ServiceName"].endswith(service)]
    ec2.delete_vpc_endpoints(VpcEndpointIds=mine)


@pytest.mark.slow
def test_it_is_built_then_changed_by_exactly_what_is_new_and_removed(person: Person) -> None:
    *_, preview = person.lines("up", "--preview")
    assert preview["type"] == "preview"
    assert {row["op"] for row in preview["changes"]} == {"create"}
    assert preview["idle_usd_a_month"] > 0
    assert preview["seconds_least"] < preview["seconds_most"]
    assert person.things() == []

    *lines, result = person.lines("up", "--yes")
    assert result["created"] == len(preview["changes"])
    assert result["pools"] == ["spot"]
    done = [line for line in lines if line["type"] == "change" and line["state"] == "done"]
    assert {line["urn"] for line in done} == {row["urn"] for row in preview["changes"]}
    built = person.counts()
    assert (built["bucket"], built["table"], built["VPC"], built["function"]) == (1, 1, 1, 1)

    person.file.write_text(person.file.read_text() + OTHER_POOL)
    lines = person.lines("up", "--yes")
    (preview,) = [line for line in lines if line["type"] == "preview"]
    ops = [(row["op"], row["component"], row["name"]) for row in preview["changes"]]
    assert ops == [
        ("update", "storage", "cluster-file"),
        ("create", "nodes", f"burst/{person.cluster}/big/p4d.24xlarge"),
    ]
    result = lines[-1]
    assert (result["created"], result["updated"], result["deleted"]) == (1, 1, 0)
    assert result["pools"] == ["spot", "big"]

    told = person.types("up", "--yes")
    assert f"Nothing to change: {len(done) + 1} things are as they are." in told.stdout
    assert "burst run exp.yaml --pool spot" in told.stdout

    _delete_endpoint(person, "s3")
    *_, unseen = person.lines("up", "--yes")
    *_, mended = person.lines("up", "--yes", "--refresh")
    assert (unseen["created"], mended["created"]) == (0, 1)
    assert person.counts()["VPC endpoint"] == 2

    *_, result = person.lines("down", "--yes", "--delete-data")
    assert (result["kept"], result["left"], result["exit_code"]) == ([], [], 0)
    assert person.things() == []


@pytest.mark.slow
def test_the_data_outlives_the_rest_and_is_taken_up_again_from_another_machine(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.types("up", "--yes")
    before = person.counts()
    bucket, table = bucket_name(person.cluster, ACCOUNT, REGION), table_name(person.cluster)
    s3, dynamodb = client("s3"), client("dynamodb")
    s3.put_object(Bucket=bucket, Key="checkpoints/x", Body=b"weights")
    dynamodb.put_item(TableName=table, Item={"pk": {"S": "a"}, "sk": {"S": "b"}})

    *_, result = person.lines("down", "--yes", "--keep-data")
    assert result["kept"] == [bucket, table]
    assert person.counts() == {"bucket": 1, "table": 1}
    assert dynamodb.describe_table(TableName=table)["Table"]["DeletionProtectionEnabled"]
    assert s3.get_public_access_block(Bucket=bucket)
    person.moves()
    told = person.types("up", "--yes")
    assert "taken from the copy in the bucket" in told.stderr
    assert person.counts() == before
    assert s3.get_object(Bucket=bucket, Key="checkpoints/x")["Body"].read() == b"weights"
    assert dynamodb.get_item(TableName=table, Key={"pk": {"S": "a"}, "sk": {"S": "b"}})["Item"]

    dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    dynamodb.delete_table(TableName=table)  # somebody did
    monkeypatch.setattr("burst.cli.account.asking.can_ask", lambda: True)
    told = person.types("down", answers="delete\nyes\n", status=5)
    assert "it was not agreed to" in told.stderr
    assert {kind: n for kind, n in before.items() if kind != "table"} == person.counts()
    told = person.types("down", answers=f"delete\n{person.cluster}\n")
    assert f"What becomes of the data in {bucket}?" in told.stderr
    assert f"Type {person.cluster} to go on" in told.stderr
    assert person.things() == []


def neighbour(cluster: str) -> Person:
    """A cluster whose name begins like another's: one thing of every kind that goes by name."""
    tags = tag_list(tags_of(cluster))
    iam, events, ec2 = client("iam"), client("events"), client("ec2")
    allowed = {"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    service = {"Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **service}]}
    name = f"burst-{cluster}-node"
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust), Tags=tags)
    iam.create_instance_profile(InstanceProfileName=name, Tags=tags)
    iam.create_policy(PolicyName=f"{name}-x", PolicyDocument=policy, Tags=tags)
    events.put_rule(Name=f"{name}-x", ScheduleExpression="rate(1 day)", Tags=tags)
    client("sns").create_topic(Name=name, Tags=tags)
    ec2.create_vpc(
        CidrBlock="10.99.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": tags}]
    )
    return Person(cluster, Path(), Path())


@pytest.mark.slow
def test_without_any_record_it_goes_by_tags_and_a_stale_record_is_no_hindrance(
    person: Person, tmp_path: Path
) -> None:
    other = neighbour(f"{person.cluster}-b")
    theirs = other.things()
    assert len(theirs) == 6
    person.types("up", "--yes")
    kept = (person.home / "pulumi").rename(tmp_path / "kept")
    key = f"cluster/pulumi/{person.cluster}.json"
    client("s3").delete_object(Bucket=bucket_name(person.cluster, ACCOUNT, REGION), Key=key)

    *lines, result = person.lines("down", "--yes", "--delete-data")
    assert any("by tags alone" in line["text"] for line in lines if line["type"] == "step")
    assert (result["left"], result["exit_code"]) == ([], 0)
    assert person.things() == []
    assert other.things() == theirs

    person.moves()
    kept.rename(person.home / "pulumi")
    *_, preview = person.lines("up", "--preview")
    assert {row["op"] for row in preview["changes"]} == {"create"}
    assert "There is nothing" in person.types("down", "--yes", "--delete-data").stdout


@pytest.mark.slow
def test_killed_again_and_again_it_is_built_once_in_the_end_and_so_removed(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At moments before and after a call of AWS's, and before and after it is written down."""
    for moment in (45, 72, 91):
        monkeypatch.setenv("PULUMI_DOUBLE_DIES_AT", str(moment))
        person.types("up", "--yes", status=5)
    monkeypatch.delenv("PULUMI_DOUBLE_DIES_AT")
    person.types("up", "--yes")
    recorded = {id for _, id in person.recorded()}
    assert [each for each in person.things() if each.id not in recorded] == []
    counts = person.counts()
    assert (counts["VPC"], counts["subnet"], counts["role"], counts["function"]) == (1, 5, 2, 1)

    monkeypatch.setenv("PULUMI_DOUBLE_DIES_AT", "61")
    person.types("down", "--yes", "--delete-data", status=5)
    monkeypatch.delenv("PULUMI_DOUBLE_DIES_AT")
    person.types("down", "--yes", "--delete-data")
    assert person.things() == []


@pytest.mark.slow
def test_ctrl_c_stops_in_order_and_the_same_command_goes_on(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Lines.done

    def interrupt(after: str) -> Callable[[Lines, Change], None]:
        """When the first of a type is done, or soon after."""
        waiting = [after]

        def heard(self: Lines, change: Change) -> None:
            if change.type in waiting:
                waiting.remove(change.type)
                os.kill(os.getpid(), signal.SIGINT)
            done(self, change)

        return heard

    with monkeypatch.context() as patched:
        patched.setattr(Lines, "done", interrupt("aws:ec2/vpc:Vpc"))
        told = person.types("up", "--yes", status=130)
    assert "Stopping: what AWS is doing just now" in told.stderr
    assert "`burst up` goes on from here" in told.stderr
    assert person.things()
    *lines, result = person.lines("up", "--yes")
    (preview,) = [line for line in lines if line["type"] == "preview"]
    assert preview["same"]
    assert result["created"] == len(preview["changes"]) > 0

    rules = [each.id for each in person.things() if each.kind == "rule"]
    with monkeypatch.context() as patched:
        patched.setattr(Lines, "done", interrupt("aws:cloudwatch/eventTarget:EventTarget"))
        told = person.types("down", "--yes", "--keep-data", status=130)
    assert f"stopped burst-{person.cluster}-runner-schedule" in told.stderr
    person.types("up", "--yes")  # a change of mind
    states = [client("events").describe_rule(Name=rule)["State"] for rule in rules]
    assert states == ["ENABLED"] * 3
    person.types("down", "--yes", "--delete-data")
    assert person.things() == []
