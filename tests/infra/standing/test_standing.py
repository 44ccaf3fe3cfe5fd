"""What stands of a cluster is compared with what its file says, from what AWS describes."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.aws.booting import node_script
from burst.core.aws.instance_types import InstanceType, known_type
from burst.core.aws.names import role_name, tags_of
from burst.core.aws.templates import NodeMachine, node_environ, template_data
from burst.core.config.cluster import Aws, AwsPool, ClusterConfig
from burst.core.config.load import parse_cluster
from burst.core.errors import Refused
from burst.infra.facts import Facts
from burst.infra.preflight.asking import Unknown
from burst.infra.preflight.checking import Verdict
from burst.infra.standing.network import Subnet, check_groups, check_reach, ways_of
from burst.infra.standing.runner import Runner, check_runner
from burst.infra.standing.services import Services, check_services
from burst.infra.standing.templates import (
    Template,
    check_bundles,
    check_templates,
    differences,
    wanted_data,
)

DENIED = Unknown(Refused("cannot look", why="no"), "ec2:DescribeSubnets")
BOTH = frozenset({"s3", "dynamodb"})
BUNDLE = ("burst-lab-1", "cluster/node-00.zip")


def kind(name: str) -> InstanceType:
    found = known_type(name)
    assert found is not None
    return found


def config(aws: str = "", pool: str = "") -> ClusterConfig:
    text = (
        f"cluster: lab\naws:\n  region: us-east-1\n{aws}"
        "pools:\n  big: {kind: aws, instance_types: [p5.48xlarge], max_nodes: 2, efa: true"
        f"{pool}}}\n"
    )
    return parse_cluster(text, "burst.yaml")


FACTS = Facts(
    "123456789012",
    "us-east-1",
    "aws",
    {"us-east-1a": ("p5.48xlarge",)},
    {"p5.48xlarge": kind("p5.48xlarge")},
    "/dev/sda1",
    1000,
)


def as_made(of: ClusterConfig) -> Template:
    """The template that is made of a cluster file, as EC2 gives it back."""
    assert of.aws is not None
    pool = of.pools["big"]
    assert isinstance(pool, AwsPool)
    boot = node_script(
        node_environ(
            "dynamodb://burst-lab?region=us-east-1",
            "s3://burst-lab-123456789012-us-east-1?region=us-east-1",
            "us-east-1",
        ),
        max_life=pool.max_life,
        bundle=f"s3://{BUNDLE[0]}/{BUNDLE[1]}",
        python=of.aws.python,
        efa=32,
    )
    machine = NodeMachine(
        of.aws.image, role_name("lab", "node"), ("sg-1",), disk_gib=of.aws.disk_gib
    )
    data = template_data(machine, tags_of("lab", "big"), boot, kind=kind("p5.48xlarge"), efa=True)
    return Template("burst/lab/big/p5.48xlarge", "big", kind("p5.48xlarge"), data)


# --- templates ----------------------------------------------------------------------------------


def test_a_template_that_was_made_of_the_file_is_as_the_file_says() -> None:
    found = as_made(config())
    assert (found.groups, found.bundle) == (("sg-1",), BUNDLE)
    assert check_templates(config(), FACTS, [found]).verdict is Verdict.OK
    more = {**(found.data or {}), "EbsOptimized": True}  # EC2 tells more than it was told
    assert check_templates(config(), FACTS, [replace(found, data=more)]).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("now", "place"),
    [
        (config(aws="  disk_gib: 300\n"), "BlockDeviceMappings"),
        (config(aws="  image: ami-0123456789abcdef0\n"), "ImageId"),
        (config(aws="  python: /usr/bin/python3\n"), "UserData"),
        (config(pool=", max_life: 3600"), "UserData"),
    ],
)
def test_a_template_of_an_older_file_is_told_with_what_differs(
    now: ClusterConfig, place: str
) -> None:
    found = check_templates(now, FACTS, [as_made(config())])
    assert found.verdict is Verdict.WARNING
    assert found.found.endswith(f"burst/lab/big/p5.48xlarge: {place}")
    assert "burst up" in found.mend


def test_a_template_that_lost_an_interface_is_told() -> None:
    made = as_made(config())
    cards = (made.data or {})["NetworkInterfaces"][:-1]
    found = replace(made, data={**(made.data or {}), "NetworkInterfaces": cards})
    assert "NetworkInterfaces" in check_templates(config(), FACTS, [found]).found


def test_a_template_that_is_not_there_fails() -> None:
    found = check_templates(config(), FACTS, [replace(as_made(config()), data=None)])
    assert found.verdict is Verdict.FAILED
    assert "burst/lab/big/p5.48xlarge" in found.found


def test_templates_that_may_not_be_looked_at_are_a_warning() -> None:
    assert check_templates(config(), FACTS, DENIED).verdict is Verdict.WARNING


def test_the_script_that_a_machine_boots_with_can_be_read() -> None:
    data = {"UserData": base64.b64encode(b"#!/bin/sh\n").decode()}
    found = Template("it", "big", kind("p5.48xlarge"), data)
    assert found.script == "#!/bin/sh\n"
    assert found.bundle == ("", "")
    assert wanted_data(config(), FACTS, found)["InstanceInitiatedShutdownBehavior"] == "terminate"


def test_a_bundle_that_is_gone_keeps_nodes_from_starting() -> None:
    assert check_bundles([]).verdict is Verdict.OK
    found = check_bundles(["s3://it/key"])
    assert found.verdict is Verdict.FAILED
    assert "s3://it/key" in found.found
    assert check_bundles(DENIED).verdict is Verdict.WARNING


json = st.recursive(
    st.integers(0, 3) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner),
    max_leaves=8,
)


@given(value=json)
def test_nothing_differs_from_itself(value: Any) -> None:
    assert differences(value, value, "it") == []


@given(value=st.dictionaries(st.sampled_from("xyz"), json, min_size=1), more=json)
def test_more_is_no_difference_and_less_is_one(value: dict[str, Any], more: Any) -> None:
    assert differences(value, {**value, "more": more}) == []
    key = next(iter(value))
    less = {name: each for name, each in value.items() if name != key}
    found = differences(value, less)
    assert found == [key] or value[key] in ({}, [])


@given(value=st.lists(json, max_size=4), data=st.data())
def test_the_order_of_a_list_does_not_matter(value: list[Any], data: st.DataObject) -> None:
    assert differences(value, data.draw(st.permutations(value)), "it") == []


# --- network ------------------------------------------------------------------------------------

SUBNET = {"SubnetId": "subnet-1", "VpcId": "vpc-1"}
MAIN = {"RouteTableId": "rtb-main", "VpcId": "vpc-1", "Associations": [{"Main": True}]}
OWN = {
    "RouteTableId": "rtb-own",
    "VpcId": "vpc-1",
    "Associations": [{"SubnetId": "subnet-1"}],
    "Routes": [{"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local"}],
}


def endpoint(service: str, table: str = "rtb-own", **fields: Any) -> dict[str, Any]:
    return {
        "ServiceName": f"com.amazonaws.us-east-1.{service}",
        "VpcEndpointType": "Gateway",
        "State": "available",
        "RouteTableIds": [table],
        **fields,
    }


def out(gateway: str, **fields: Any) -> dict[str, Any]:
    key = "NatGatewayId" if gateway.startswith("nat") else "GatewayId"
    route = {"DestinationCidrBlock": "0.0.0.0/0", key: gateway, **fields}
    return {**OWN, "Routes": [*OWN["Routes"], route]}


@pytest.mark.parametrize(
    ("tables", "endpoints", "ways"),
    [
        ([MAIN, OWN], [endpoint("s3"), endpoint("dynamodb")], {"s3", "dynamodb"}),
        ([MAIN, OWN], [endpoint("s3", "rtb-main")], set()),  # of a table that is not its own
        ([MAIN], [endpoint("s3", "rtb-main")], {"s3"}),
        ([MAIN, OWN], [endpoint("s3", State="deleting")], set()),
        ([MAIN, OWN], [endpoint("s3", VpcEndpointType="Interface")], set()),
        ([out("nat-1")], [], {"internet"}),
        ([out("igw-1")], [], {"internet"}),
        ([out("nat-1", State="blackhole")], [], set()),
        ([], [endpoint("s3")], set()),
    ],
)
def test_where_routes_lead(tables: list[Any], endpoints: list[Any], ways: set[str]) -> None:
    assert ways_of(SUBNET, tables, endpoints) == ways


def test_a_subnet_without_a_route_is_told_with_what_it_lacks() -> None:
    fine = Subnet("subnet-1", "us-east-1a", BOTH)
    out_of_s3 = Subnet("subnet-2", "us-east-1b", frozenset({"dynamodb"}))
    assert check_reach("lab", [fine], ["us-east-1a"]).verdict is Verdict.OK
    found = check_reach("lab", [fine, out_of_s3], ["us-east-1a"])
    assert found.verdict is Verdict.FAILED
    assert found.found == "there is no route to the bucket from us-east-1b"
    nothing = Subnet("subnet-3", "us-east-1c", frozenset())
    assert check_reach("lab", [nothing], []).found == (
        "there is no route to the table from us-east-1c, and none to the bucket from us-east-1c"
    )
    through = Subnet("subnet-4", "us-east-1d", frozenset({"internet"}))
    assert check_reach("lab", [through], []).verdict is Verdict.OK


def test_a_zone_without_a_subnet_is_a_warning_and_none_at_all_a_failure() -> None:
    found = check_reach("lab", [Subnet("subnet-1", "us-east-1a", BOTH)], ["us-east-1b"])
    assert found.verdict is Verdict.WARNING
    assert "none in us-east-1b" in found.found
    assert check_reach("lab", [], ["us-east-1a"]).verdict is Verdict.FAILED
    assert check_reach("lab", DENIED, []).verdict is Verdict.WARNING


def group(**rules: Any) -> dict[str, Any]:
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]}]
    found = {"GroupId": "sg-1", "IpPermissions": itself, "IpPermissionsEgress": itself}
    return {**found, **rules}


ANYWHERE = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({}, ""),
        ({"IpPermissions": []}, "no rule for itself, in"),
        # All may go out, and EFA needs the rule for the group nevertheless.
        ({"IpPermissionsEgress": ANYWHERE}, "no rule for itself, out"),
        ({"IpPermissions": [], "IpPermissionsEgress": []}, "in and out"),
    ],
)
def test_the_groups_rule_for_itself_is_needed_both_ways(rules: dict[str, Any], said: str) -> None:
    found = check_groups([group(**rules)], ["sg-1"])
    assert (found.verdict is Verdict.OK) is (not said)
    assert said in found.found


def test_a_group_that_is_gone_is_told() -> None:
    assert "sg-1 is gone" in check_groups([], ["sg-1"]).found
    assert check_groups(DENIED, ["sg-1"]).verdict is Verdict.WARNING


# --- the runner ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "verdict", "said"),
    [
        (Runner(True, 4), Verdict.OK, "called by 4 triggers"),
        (Runner(False), Verdict.FAILED, "there is no function burst-lab-runner"),
        (Runner(True), Verdict.FAILED, "nothing calls"),
        (Runner(True, 4, ("a-rule",)), Verdict.FAILED, "switched off: a-rule"),
        (DENIED, Verdict.WARNING, "cannot look"),
    ],
)
def test_a_runner_that_nothing_calls_fails(
    found: Runner | Unknown, verdict: Verdict, said: str
) -> None:
    check = check_runner("lab", found)
    assert check.verdict is verdict
    assert said in check.found


# --- what is paid by the hour --------------------------------------------------------------------

SSM = frozenset({"ssm", "ssmmessages", "ec2messages"})
OUT = [Subnet("subnet-1", "us-east-1a", BOTH | {"internet"})]
CUT = [Subnet("subnet-1", "us-east-1a", BOTH)]


@pytest.mark.parametrize(
    ("nat", "endpoints", "found", "subnets", "verdict", "said"),
    [
        (True, (), Services(("nat-1",), frozenset()), OUT, Verdict.OK, "NAT gateway"),
        (True, (), Services((), frozenset()), CUT, Verdict.FAILED, "the NAT gateway"),
        (True, (), Services(("nat-1",), frozenset()), CUT, Verdict.FAILED, "us-east-1a"),
        (False, ("sessions",), Services((), SSM), CUT, Verdict.OK, "endpoint of ssm,"),
        (
            False,
            ("sessions",),
            Services((), SSM - {"ssm"}),
            CUT,
            Verdict.FAILED,
            "endpoint of ssm",
        ),
        (True, ("sessions",), Services((), frozenset()), CUT, Verdict.FAILED, "NAT gateway, the"),
        (True, (), DENIED, OUT, Verdict.WARNING, ""),
        (True, (), Services(("nat-1",), frozenset()), DENIED, Verdict.OK, "NAT gateway"),
    ],
)
def test_a_gateway_and_endpoints_that_the_file_asks_for_and_that_are_gone_are_told(
    nat: bool, endpoints: Any, found: Any, subnets: Any, verdict: Verdict, said: str
) -> None:
    aws = Aws(region="us-east-1", nat=nat, endpoints=endpoints)
    check = check_services(aws, found, subnets)
    assert check is not None
    assert check.verdict is verdict
    assert said in check.found


def test_a_file_that_asks_for_neither_is_not_checked_for_them() -> None:
    assert check_services(Aws(region="us-east-1"), Services((), frozenset()), CUT) is None


def test_what_is_missing_may_be_a_hands_work_or_an_up_that_did_not_end() -> None:
    missing = check_runner("lab", Runner(there=False))
    assert "`burst up` has not come to its end" in missing.mend
    assert "by hand" in missing.mend
