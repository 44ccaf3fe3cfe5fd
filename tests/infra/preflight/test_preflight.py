"""All that is looked at before anything is made, against the rehearsal cloud."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from burst.core.aws.names import bucket_name, tag_list, tags_of
from burst.core.config.cluster import ClusterConfig
from burst.core.errors import ConfigError
from burst.infra.preflight import Check, Preflight, Verdict, gather, preflight, prepare
from burst.runner.rehearsal.control import Ec2Control
from tests.infra.preflight.clients import ACCOUNT, SPOT, client, cluster, new_name

P5 = "{kind: aws, instance_types: [p5.48xlarge], max_nodes: 2, efa: true}"
LOCAL = "{kind: local}"


def one(found: Preflight, name: str) -> Check:
    (check,) = [each for each in found.checks if each.name == name]
    return check


def verdicts(found: Preflight) -> dict[str, Verdict]:
    return {each.name: each.verdict for each in found.checks}


def test_a_cluster_that_can_be_built_has_facts_and_nothing_that_failed(
    environ: Mapping[str, str], iam: Any
) -> None:
    config = cluster(new_name(), aws="github: [owner/name]", spot=SPOT, big=P5)
    prepare(config, environ)
    found = preflight(config, environ)
    assert found.failed == []
    assert found.facts == gather(config, environ)
    assert [each.name for each in found.checks] == [
        "credentials",
        "account",
        "region",
        "pool spot",
        "quota of spot",
        "pool big",
        "quota of big",
        "image",
        "spot role",
        "GitHub",
        "network",
        "function",
        "names",
    ]
    assert one(found, "account").found == ACCOUNT
    assert "p5.48xlarge in us-east-1a" in one(found, "pool big").found


def test_where_people_run_the_runner_no_function_is_looked_at(
    environ: Mapping[str, str], iam: Any
) -> None:
    found = preflight(cluster(new_name(), aws="runner: here"), environ)
    assert "function" not in verdicts(found)
    assert found.failed == []


def test_machines_of_ones_own_need_no_network_no_image_and_no_quota(
    environ: Mapping[str, str],
) -> None:
    own = "{kind: static, slots_per_node: 8}"
    found = preflight(cluster(new_name(), onprem=own), environ)
    assert found.failed == []
    assert found.facts is not None
    assert (found.facts.zones, found.facts.types, found.facts.root_device) == ({}, {}, "")
    assert not {"image", "network", "quota of spot"} & {each.name for each in found.checks}


def test_what_up_makes_by_itself_is_a_warning(environ: Mapping[str, str], iam: Any) -> None:
    found = preflight(cluster(new_name(), aws="github: [owner/name]"), environ)
    assert found.failed == []
    assert one(found, "spot role").verdict is Verdict.WARNING
    assert one(found, "GitHub").verdict is Verdict.WARNING


@pytest.mark.parametrize(
    ("config", "failing", "said"),
    [
        (cluster(region="ap-east-1"), "region", "has not enabled"),
        (cluster(region="us-eats-1"), "region", "there is no region"),
        (cluster(aws="account: '999999999999'"), "account", "999999999999"),
        (cluster(aws="disk_gib: 8"), "image", "needs a root disk of"),
        (cluster(aws="image: ami-0123456789abcdef0"), "image", "InvalidAMIID.NotFound"),
        (cluster(aws="image: resolve:ssm:/no/such"), "image", "ParameterNotFound"),
        (cluster(region="us-west-1"), "pool spot", "no zone of us-west-1 offers"),
        (
            cluster(spot="{kind: aws, instance_types: [g5.xlarge], max_nodes: 1, efa: true}"),
            "pool spot",
            "can have none here",
        ),
        (
            cluster(spot="{kind: aws, instance_types: [g5g.xlarge], max_nodes: 1}"),
            "pool spot",
            "arm64",
        ),
    ],
)
def test_each_thing_that_stands_in_the_way_is_named(
    environ: Mapping[str, str], config: ClusterConfig, failing: str, said: str
) -> None:
    found = preflight(config, environ)
    assert [each.name for each in found.failed] == [failing]
    assert said in one(found, failing).found
    assert one(found, failing).mend


def test_all_that_is_wrong_is_told_in_one_go(environ: Mapping[str, str]) -> None:
    config = cluster(
        aws="disk_gib: 8",
        spot="{kind: aws, instance_types: [g6.xlagre], max_nodes: 1}",
        big="{kind: aws, instance_types: [g5.xlarge], max_nodes: 1, efa: true}",
    )
    assert {each.name for each in preflight(config, environ).failed} == {
        "image",
        "pool spot",
        "pool big",
    }


def test_quotas_are_those_of_the_account(environ: Mapping[str, str], control: Ec2Control) -> None:
    config = cluster(new_name(), spot=SPOT, big=P5)
    control.set_quota(8, kind="G and VT")
    control.set_quota(0, kind="P5")
    found = preflight(config, environ)
    some, none = one(found, "quota of spot"), one(found, "quota of big")
    assert some.verdict is Verdict.WARNING
    assert "(L-3819A6DF): 8 vCPUs, 2 nodes of g5.xlarge, of max_nodes 8" in some.found
    assert found.failed == [none]
    assert "(L-C4BD4855): 0 vCPUs, no p5.48xlarge: nothing can be launched" in none.found
    assert "ask for 384 vCPUs" in none.mend  # 2 × 192


def test_an_account_that_may_have_no_other_vpc_is_told(environ: Mapping[str, str]) -> None:
    ec2 = client("ec2", environ)
    made = [
        ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        for _ in range(5 - len(ec2.describe_vpcs()["Vpcs"]))
    ]
    found = preflight(cluster(new_name()), environ)
    for id in made:
        ec2.delete_vpc(VpcId=id)
    ec2.close()
    assert [each.name for each in found.failed] == ["network"]
    assert '"VPCs per Region" (L-F678F1CE)' in one(found, "network").found


def test_a_bucket_that_is_somebody_elses_stands_in_the_way(environ: Mapping[str, str]) -> None:
    name = new_name()
    s3 = client("s3", environ)
    s3.create_bucket(Bucket=bucket_name(name, ACCOUNT, "us-east-1"))
    s3.close()
    found = preflight(cluster(name), environ)
    assert [each.name for each in found.failed] == ["names"]
    assert bucket_name(name, ACCOUNT, "us-east-1") in one(found, "names").found


def test_vpcs_are_counted_and_the_clusters_own_is_known(environ: Mapping[str, str]) -> None:
    name = new_name()
    ec2 = client("ec2", environ)
    made = ec2.create_vpc(
        CidrBlock="10.0.0.0/16",
        TagSpecifications=[{"ResourceType": "vpc", "Tags": tag_list(tags_of(name))}],
    )
    assert verdicts(preflight(cluster(name), environ))["network"] is not Verdict.FAILED
    ec2.delete_vpc(VpcId=made["Vpc"]["VpcId"])
    ec2.close()


@pytest.mark.parametrize(
    ("operation", "name", "verdict"),
    [
        ("DescribeInstanceTypes", "instance types", Verdict.FAILED),
        ("DescribeInstanceTypeOfferings", "zones", Verdict.FAILED),
        ("DescribeImages", "image", Verdict.FAILED),
        ("DescribeVpcs", "network", Verdict.WARNING),
        ("DescribeLaunchTemplates", "names", Verdict.WARNING),
        ("DescribeRegions", "region", Verdict.OK),  # which the other answers prove
    ],
)
def test_a_look_up_that_is_denied_fails_only_what_needs_it(
    environ: Mapping[str, str],
    control: Ec2Control,
    operation: str,
    name: str,
    verdict: Verdict,
) -> None:
    control.fail(operation, "UnauthorizedOperation")
    found = preflight(cluster(new_name()), environ)
    check = one(found, name)
    assert check.verdict is verdict
    assert (found.facts is None) is (verdict is Verdict.FAILED)
    if verdict is not Verdict.OK:
        assert f"ec2:{operation}" in check.mend
        assert check.code == "UnauthorizedOperation"


def test_a_cluster_without_a_side_in_aws_is_refused(environ: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError):
        preflight(ClusterConfig(), environ)
