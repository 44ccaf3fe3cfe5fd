"""What an audit says of the account's side: all is explained, or it is named thing by thing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from burst.cli.account.auditing import ACCOUNT, Standing, is_built, with_standing
from burst.core.aws.names import REGION, bucket_name, function_name, table_name, tag_list, tags_of
from burst.core.config.cluster import Aws, ClusterConfig
from burst.core.errors import Unreachable
from burst.core.store.dynamodb.items import table_schema
from burst.infra.account.removing import Unseen
from burst.infra.account.sorts import Thing
from burst.runner.audit import Found, Verdict, unexplained
from burst.runner.rehearsal.servers import Servers, serve
from tests.rehearsal.lab import client

ACCOUNT_ID = "123456789012"
FILE = """
cluster: lab
aws: {region: us-east-1}
pools:
  spot: {kind: aws, instance_types: [c5.large], max_nodes: 2}
"""
TAGS = tags_of("lab")


def thing(kind: str, type: str, id: str) -> Thing:
    return Thing(kind, type, id, "")


VPC = thing("VPC", "aws:ec2/vpc:Vpc", "vpc-1")
FUNCTION = thing("function", "aws:lambda/function:Function", "burst-lab-runner")
TABLE = thing("table", "aws:dynamodb/table:Table", "burst-lab")
BUCKET = thing("bucket", "aws:s3/bucket:Bucket", "burst-lab-1")
SILENT = [
    Found("(store)", "store", "dynamodb://burst-lab", "", "", None, Verdict.UNKNOWN, ""),
    Found("(blobs)", "blobs", "s3://burst-lab-1", "", "", None, Verdict.UNKNOWN, ""),
]
MACHINE = Found("spot", "machine", "i-1", "", "", 1.0, Verdict.STRAY, "")


def told(found: list[Found]) -> list[tuple[str, str, Verdict]]:
    return [(each.kind, each.id, each.verdict) for each in found]


def test_what_stands_is_one_finding_and_explained() -> None:
    standing = Standing(ACCOUNT_ID, [VPC, FUNCTION, TABLE, BUCKET])
    (whole, machine) = with_standing([MACHINE], standing, by_function=True)
    assert (whole.pool, whole.id, whole.verdict) == (ACCOUNT, ACCOUNT_ID, Verdict.OWNED)
    assert "4 things" in whole.will
    assert machine == MACHINE


def test_what_an_interrupted_down_left_is_named_thing_by_thing() -> None:
    found = with_standing([], Standing(ACCOUNT_ID, [VPC, TABLE, BUCKET]), by_function=True)
    assert told(found) == [
        ("VPC", "vpc-1", Verdict.STRAY),
        ("table", "burst-lab", Verdict.OWNED),
        ("bucket", "burst-lab-1", Verdict.OWNED),
    ]
    assert [each.id for each in unexplained(found)] == ["vpc-1"]
    assert "--delete-data" in found[1].will


def test_without_a_function_the_data_says_whether_it_stands() -> None:
    (whole,) = with_standing([], Standing(ACCOUNT_ID, [VPC, TABLE]), by_function=False)
    assert whole.verdict is Verdict.OWNED
    found = with_standing([], Standing(ACCOUNT_ID, [VPC]), by_function=False)
    assert told(found) == [("VPC", "vpc-1", Verdict.STRAY)]


def test_a_table_and_a_bucket_that_are_gone_are_no_finding() -> None:
    assert with_standing(SILENT, Standing(ACCOUNT_ID, []), by_function=True) == []
    found = with_standing([*SILENT, MACHINE], Standing(ACCOUNT_ID, []), by_function=True)
    assert found == [MACHINE]


def test_where_they_are_there_or_may_be_their_silence_is_a_finding() -> None:
    unseen = [Unseen("table", Unreachable("cannot look for tables", why="a cable"))]
    for standing in (
        Standing(ACCOUNT_ID, [TABLE]),
        Standing(ACCOUNT_ID, [FUNCTION, TABLE]),
        Standing(ACCOUNT_ID, [], unseen),
    ):
        found = with_standing(SILENT, standing, by_function=True)
        assert [each for each in found if each in SILENT] == SILENT
    (table, *_) = with_standing([], Standing(ACCOUNT_ID, [FUNCTION], unseen), by_function=True)
    assert (table.id, table.verdict) == ("table", Verdict.UNKNOWN)
    assert "a cable" in table.will


ROLE = thing("role", "aws:iam/role:Role", "burst-lab-node")


@pytest.mark.parametrize("things", [[], [FUNCTION, TABLE], [VPC], [TABLE]])
def test_roles_of_the_cluster_of_this_name_in_another_region_are_explained(
    things: list[Thing],
) -> None:
    standing = Standing(ACCOUNT_ID, [*things, ROLE], elsewhere={ROLE.id: "eu-west-1"})
    without = with_standing([], Standing(ACCOUNT_ID, things), by_function=True)
    found = with_standing([], standing, by_function=True)
    (role,) = [each for each in found if each not in without]
    assert (role.id, role.verdict) == ("burst-lab-node", Verdict.OWNED)
    assert role.will == "it belongs to the cluster of this name in eu-west-1"


def test_a_function_that_nothing_calls_is_a_finding_beside_what_stands() -> None:
    stopped = ("burst-lab-every-minute", "the table's stream")
    standing = Standing(ACCOUNT_ID, [VPC, FUNCTION, TABLE, BUCKET], stopped=stopped)
    function, whole = with_standing([], standing, by_function=True)
    assert unexplained([function, whole]) == [function]
    assert (function.id, function.verdict) == (FUNCTION.id, Verdict.STOPPED)
    for said in (*stopped, "`burst up` starts it again", "`burst down` goes on"):
        assert said in function.will


@pytest.mark.parametrize(
    ("cluster", "environ", "built"),
    [
        (ClusterConfig(aws=Aws(region="us-east-1")), {}, True),
        (ClusterConfig(), {}, False),
        (ClusterConfig(aws=Aws(region="us-east-1"), store="dynamodb://mine"), {}, False),
        (ClusterConfig(aws=Aws(region="us-east-1")), {"BURST_STORE": "dynamodb://mine"}, False),
    ],
)
def test_a_side_is_looked_for_where_burst_up_made_the_state(
    cluster: ClusterConfig, environ: Mapping[str, str], built: bool
) -> None:
    assert is_built(cluster, environ) is built


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serve(tmp_path_factory.mktemp("servers"), boot=0.05) as made:
        yield made


@pytest.fixture
def run(servers: Servers, tmp_path: Path) -> Any:
    """`burst audit --json` as a person calls it; the rows, and the exit status."""
    (tmp_path / "burst.yaml").write_text(FILE)

    def call() -> tuple[list[dict[str, Any]], int]:
        outside = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        done = subprocess.run(
            [sys.executable, "-m", "burst.cli", "audit", "--json"],
            cwd=tmp_path,
            env={**outside, **servers.environ, "BURST_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout), done.returncode

    return call


@pytest.mark.slow
def test_an_account_is_audited_before_while_and_after_it_is_built(
    servers: Servers, run: Any
) -> None:
    ec2, dynamodb = client("ec2", servers.ec2), client("dynamodb", servers.aws)
    s3, functions = client("s3", servers.aws), client("lambda", servers.aws)
    assert run() == ([], 0)
    vpc = ec2.create_vpc(
        CidrBlock="10.86.0.0/16",
        TagSpecifications=[{"ResourceType": "vpc", "Tags": tag_list(TAGS)}],
    )["Vpc"]["VpcId"]
    dynamodb.create_table(**table_schema(table_name("lab")), Tags=tag_list(TAGS))
    bucket = bucket_name("lab", ACCOUNT_ID, "us-east-1")
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tag_list(TAGS)})
    rows, status = run()
    assert (status, [each["kind"] for each in rows]) == (1, ["VPC", "bucket", "table"])
    functions.create_function(
        FunctionName=function_name("lab"),
        Runtime="python3.12",
        Role=f"arn:aws:iam::{ACCOUNT_ID}:role/burst-lab-runner",
        Handler="burst.handler",
        Code={"ZipFile": b"PK\x05\x06" + bytes(18)},
        Tags=TAGS,
    )
    rows, status = run()
    assert [(each["kind"], each["verdict"]) for each in rows] == [
        ("function", "stopped"),
        ("account's side", "owned"),
    ]
    assert (status, "all that calls it is gone" in rows[0]["will"]) == (1, True)
    events, rule = client("events", servers.aws), "burst-lab-every-minute"
    made = {"Name": rule, "ScheduleExpression": "rate(1 minute)", "Tags": tag_list(TAGS)}
    events.put_rule(**made, State="DISABLED")
    rows, status = run()
    assert (status, rule in rows[0]["will"]) == (1, True)
    events.enable_rule(Name=rule)
    iam, trust = client("iam", servers.aws), json.dumps({"Version": "2012-10-17", "Statement": []})
    tags = tag_list({**TAGS, REGION: "eu-west-1"})
    iam.create_role(RoleName="burst-lab-node", AssumeRolePolicyDocument=trust, Tags=tags)
    rows, status = run()
    assert (status, [each["kind"] for each in rows]) == (0, ["account's side", "role"])
    assert "in eu-west-1" in rows[1]["will"]
    events.delete_rule(Name=rule)
    functions.delete_function(FunctionName=function_name("lab"))
    rows, status = run()
    assert (status, {each["verdict"] for each in rows}) == (1, {"stray", "owned"})
    ec2.delete_vpc(VpcId=vpc)
    rows, status = run()
    assert (status, [each["kind"] for each in rows]) == (0, ["bucket", "table", "role"])
    iam.delete_role(RoleName="burst-lab-node")
    dynamodb.delete_table(TableName=table_name("lab"))
    s3.delete_bucket(Bucket=bucket)
    assert run() == ([], 0)
    for each in (ec2, dynamodb, s3, functions, events, iam):
        each.close()
