"""A cluster's side of the account is built, changed, taken down, and built again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from burst.core.aws.names import bucket_name, table_name
from tests.infra.account.conftest import ACCOUNT, OTHER_POOL, REGION, Person, somebody

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*has been deprecated in favor of:DeprecationWarning"
)
"""Pulumi's library for AWS warns of parts of its own."""


def client(service: str) -> Any:
    from boto3.session import Session

    return Session().client(service, region_name=REGION)


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

    *_, result = person.lines("down", "--yes", "--delete-data")
    assert (result["kept"], result["left"], result["exit_code"]) == ([], [], 0)
    assert person.things() == []


@pytest.mark.slow
def test_the_data_outlives_the_rest_and_is_taken_up_again_from_another_machine(
    person: Person,
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
    *_, result = person.lines("down", "--yes", "--delete-data")
    assert result["exit_code"] == 0
    assert person.things() == []


@pytest.mark.slow
def test_without_any_record_it_goes_by_tags_and_a_stale_record_is_no_hindrance(
    person: Person, tmp_path: Path
) -> None:
    person.types("up", "--yes")
    kept = (person.home / "pulumi").rename(tmp_path / "kept")
    key = f"cluster/pulumi/{person.cluster}.json"
    client("s3").delete_object(Bucket=bucket_name(person.cluster, ACCOUNT, REGION), Key=key)

    *lines, result = person.lines("down", "--yes", "--delete-data")
    assert any("by tags alone" in line["text"] for line in lines if line["type"] == "step")
    assert (result["left"], result["exit_code"]) == ([], 0)
    assert person.things() == []

    person.moves()
    kept.rename(person.home / "pulumi")
    *_, preview = person.lines("up", "--preview")
    assert {row["op"] for row in preview["changes"]} == {"create"}
    assert "There is nothing" in person.types("down", "--yes", "--delete-data").stdout


@pytest.mark.slow
def test_killed_again_and_again_it_is_built_once_in_the_end_and_so_removed(
    person: Person, bundles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = somebody(f"{person.cluster}-b", tmp_path / "theirs", bundles)
    whole.types("up", "--yes")
    wanted = whole.counts()

    for moment in (29, 60, 91):
        monkeypatch.setenv("PULUMI_DOUBLE_DIES_AT", str(moment))
        person.types("up", "--yes", status=5)
    monkeypatch.delenv("PULUMI_DOUBLE_DIES_AT")
    person.types("up", "--yes")
    assert person.counts() == wanted

    monkeypatch.setenv("PULUMI_DOUBLE_DIES_AT", "61")
    person.types("down", "--yes", "--delete-data", status=5)
    monkeypatch.delenv("PULUMI_DOUBLE_DIES_AT")
    person.types("down", "--yes", "--delete-data")
    assert person.things() == []
    assert whole.counts() == wanted  # a cluster beside it is none of its


@pytest.mark.slow
def test_ctrl_c_stops_in_order_and_the_same_command_goes_on(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    import signal

    from burst.cli.building import Lines
    from burst.infra.engine.changes import Change

    count, done = 0, Lines.done

    def interrupt(self: Lines, change: Change) -> None:
        nonlocal count
        count += 1
        if count == 6:
            os.kill(os.getpid(), signal.SIGINT)
        done(self, change)

    with monkeypatch.context() as patched:
        patched.setattr(Lines, "done", interrupt)
        told = person.types("up", "--yes", status=130)
    assert "Stopping: what AWS is doing just now" in told.stderr
    assert "`burst up` goes on from here" in told.stderr
    assert person.things()
    *lines, result = person.lines("up", "--yes")
    (preview,) = [line for line in lines if line["type"] == "preview"]
    assert preview["same"]
    assert result["created"] == len(preview["changes"]) > 0

    with monkeypatch.context() as patched:
        count = 0
        patched.setattr(Lines, "done", interrupt)
        told = person.types("down", "--yes", "--keep-data", status=130)
    assert f"stopped burst-{person.cluster}-runner-schedule" in told.stderr
    rules = [each.id for each in person.things() if each.kind == "rule"]
    person.types("up", "--yes")  # a change of mind
    states = [client("events").describe_rule(Name=rule)["State"] for rule in rules]
    assert states == ["ENABLED"] * 3
    person.types("down", "--yes", "--delete-data")
    assert person.things() == []
