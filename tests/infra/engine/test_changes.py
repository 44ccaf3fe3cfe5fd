"""Pulumi's steps as a person reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulumi.automation.events import OpType

from burst.infra.engine.changes import (
    _OPS,
    Change,
    Changes,
    Op,
    component_of,
    is_data,
    is_thing,
    kind_of,
    step,
)

STACK = "urn:pulumi:lab::burst::pulumi:pulumi:Stack::burst-lab"
NETWORK = "urn:pulumi:lab::burst::burst:infra:Network::network"
VPC = "urn:pulumi:lab::burst::burst:infra:Network$aws:ec2/vpc:Vpc::vpc"
TABLE = "urn:pulumi:lab::burst::burst:infra:Storage$aws:dynamodb/table:Table::table"
PRIVATE = (
    "urn:pulumi:lab::burst::burst:infra:Storage$aws:s3/bucketPublicAccessBlock:"
    "BucketPublicAccessBlock::private"
)
TEMPLATE = (
    "urn:pulumi:lab::burst::burst:infra:Nodes$aws:ec2/launchTemplate:LaunchTemplate::burst/lab/big"
)
PROVIDER = "urn:pulumi:lab::burst::pulumi:providers:aws::aws"


def test_every_word_that_pulumi_has_for_a_step_is_known() -> None:
    unknown = {op.value for op in OpType} - _OPS.keys()
    assert unknown <= {"detailed-diff", "read-discard", "diff", "pending-replace", "remove"}
    assert step("something-new", VPC).op is Op.UPDATE


def test_components_providers_and_the_stack_itself_are_no_things() -> None:
    told = [step("create", urn) for urn in (STACK, PROVIDER, NETWORK, VPC)]
    assert [row.urn for row in Changes.of(told).rows] == [VPC]
    assert not any(map(is_thing, (STACK, PROVIDER, NETWORK, "")))


def test_what_is_made_anew_is_one_row_however_many_steps_it_has() -> None:
    steps = [
        step("create-replacement", TABLE, ["hashKey"]),
        step("replace", TABLE),
        step("delete-replaced", TABLE),
    ]
    (row,) = Changes.of(steps).rows
    assert row.op is Op.REPLACE
    assert row.why == ("hashKey",)
    assert row.loses_data


@pytest.mark.parametrize(
    ("urn", "op", "loses"),
    [
        (TABLE, "delete", True),
        (TABLE, "replace", True),
        (TABLE, "update", False),
        (TABLE, "create", False),
        (PRIVATE, "delete", False),
        (VPC, "delete", False),
    ],
)
def test_only_the_bucket_and_the_table_lose_data(urn: str, op: str, loses: bool) -> None:
    assert bool(Changes.of([step(op, urn)]).losing) is loses


def test_what_keeps_the_bucket_private_stays_with_the_data() -> None:
    assert is_data(TABLE)
    assert is_data(PRIVATE)
    assert not is_data(VPC)


def test_things_are_named_by_the_part_of_the_cluster_and_their_kind() -> None:
    change = Change(TEMPLATE, Op.CREATE)
    assert (change.component, change.kind, change.name) == (
        "nodes",
        "launch template",
        "burst/lab/big",
    )
    assert component_of(VPC) == "network"
    assert component_of("urn:pulumi:lab::burst::aws:ec2/vpc:Vpc::vpc") == ""
    assert kind_of("aws:ec2/vpc:Vpc") == "VPC"
    assert kind_of("aws:ec2/vpcEndpoint:VpcEndpoint") == "VPC endpoint"
    assert kind_of("aws:s3/bucketV2:BucketV2") == "bucket"
    assert kind_of("aws:s3/bucketObjectv2:BucketObjectv2") == "bucket object"


def test_nothing_to_do_is_false() -> None:
    assert not Changes.of([step("same", VPC), step("read", TABLE)])
    assert Changes.of([step("same", VPC), step("update", TABLE)])


@given(st.lists(st.tuples(st.sampled_from(sorted(_OPS)), st.sampled_from([VPC, TABLE, TEMPLATE]))))
def test_a_thing_has_one_row_and_the_gravest_of_its_steps(told: list[tuple[str, str]]) -> None:
    changes = Changes.of([step(op, urn) for op, urn in told])
    assert len({row.urn for row in changes.rows}) == len(changes.rows)
    assert sum(changes.counts().values()) == len({urn for _, urn in told})
    replaced = {urn for op, urn in told if _OPS[op] is Op.REPLACE}
    assert {row.urn for row in changes.rows if row.op is Op.REPLACE} == replaced
    grouped = [row for rows in changes.by_component().values() for row in rows]
    assert sorted(grouped, key=lambda row: row.urn) == sorted(
        changes.doing, key=lambda row: row.urn
    )
