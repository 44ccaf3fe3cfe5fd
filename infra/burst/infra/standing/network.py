"""Whether nodes can reach the table, the bucket and each other, by what the network says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burst.core.aws.names import CLUSTER
from burst.core.units import counted
from burst.infra.preflight.asking import Asking, Unknown
from burst.infra.preflight.checking import Check, failed, not_known, ok, warning
from burst.infra.standing import BY_HAND, UP

_ANYWHERE = "0.0.0.0/0"
_SERVICES = {"dynamodb": "the table", "s3": "the bucket"}


@dataclass(frozen=True)
class Subnet:
    """One that nodes are launched into."""

    id: str
    zone: str
    ways: frozenset[str]
    """`s3` and `dynamodb` where a gateway endpoint has a route, `internet` where a NAT or an
    internet gateway has one."""


def look_subnets(asking: Asking, cluster: str) -> list[Subnet] | Unknown:
    """Those of the cluster's, by zone, except the NAT gateway's own."""

    def question() -> list[Subnet]:
        ec2 = asking.client("ec2")
        tagged = [{"Name": f"tag:{CLUSTER}", "Values": [cluster]}]
        found = [
            each
            for page in ec2.get_paginator("describe_subnets").paginate(Filters=tagged)
            for each in page["Subnets"]
        ]
        there = [{"Name": "vpc-id", "Values": sorted({each["VpcId"] for each in found})}]
        if not found:
            return []
        tables = ec2.describe_route_tables(Filters=there)["RouteTables"]
        endpoints = ec2.describe_vpc_endpoints(Filters=there)["VpcEndpoints"]
        private = [each for each in found if not each.get("MapPublicIpOnLaunch")] or found
        return sorted(
            (
                Subnet(
                    each["SubnetId"], each["AvailabilityZone"], ways_of(each, tables, endpoints)
                )
                for each in private
            ),
            key=lambda each: each.zone,
        )

    what = f"cannot learn where nodes of {cluster} are put"
    action = "ec2:DescribeSubnets, ec2:DescribeRouteTables and ec2:DescribeVpcEndpoints"
    return asking.ask(what, action, question)


def ways_of(
    subnet: Mapping[str, Any],
    tables: Sequence[Mapping[str, Any]],
    endpoints: Sequence[Mapping[str, Any]],
) -> frozenset[str]:
    """Where a subnet's routes lead. Pure; all as EC2 describes them."""
    table = _table_of(subnet, tables)
    if table is None:
        return frozenset()
    ways = {
        str(each["ServiceName"]).rpartition(".")[2]
        for each in endpoints
        if each.get("VpcEndpointType", "Gateway") == "Gateway"
        and str(each.get("State", "available")).lower() == "available"
        and table["RouteTableId"] in each.get("RouteTableIds", ())
    }
    for route in table.get("Routes", ()):
        gateway = route.get("NatGatewayId") or str(route.get("GatewayId", ""))
        leads_out = route.get("DestinationCidrBlock") == _ANYWHERE
        if (
            leads_out
            and gateway.startswith(("nat-", "igw-"))
            and route.get("State") != "blackhole"
        ):
            ways.add("internet")
    return frozenset(ways)


def check_reach(cluster: str, subnets: list[Subnet] | Unknown, zones: Sequence[str]) -> Check:
    """
    Args:
        zones: that a pool has a use for.
    """
    label = "reach"
    if isinstance(subnets, Unknown):
        return not_known(label, subnets)
    if not subnets:
        return failed(label, f"no subnet carries the tag {CLUSTER}={cluster}", UP)
    cut = {
        name: [each.zone for each in subnets if not each.ways & {service, "internet"}]
        for service, name in _SERVICES.items()
    }
    if any(cut.values()):
        ways = [f"{name} from {', '.join(those)}" for name, those in cut.items() if those]
        return failed(label, f"there is no route to {', and none to '.join(ways)}", BY_HAND)
    missing = sorted(set(zones) - {each.zone for each in subnets})
    said = f"table and bucket, from {counted(len(subnets), 'subnet')}"
    if missing:
        return warning(label, f"{said}; none in {', '.join(missing)}", UP)
    return ok(label, f"{said} ({', '.join(each.zone for each in subnets)})")


def look_groups(asking: Asking, groups: Sequence[str]) -> list[Mapping[str, Any]] | Unknown:
    """The security groups with these ids that are there, as EC2 describes them."""

    def question() -> list[Mapping[str, Any]]:
        wanted = [{"Name": "group-id", "Values": list(groups)}]
        found: list[Mapping[str, Any]]
        found = asking.client("ec2").describe_security_groups(Filters=wanted)["SecurityGroups"]
        return found

    if not groups:
        return []
    what = "cannot learn what nodes may send each other"
    return asking.ask(what, "ec2:DescribeSecurityGroups", question)


def check_groups(groups: list[Mapping[str, Any]] | Unknown, wanted: Sequence[str]) -> Check:
    """Whether nodes may send each other anything, in and out: EFA needs a rule for the group
    itself in both directions, whatever else is allowed."""
    label = "among nodes"
    if isinstance(groups, Unknown):
        return not_known(label, groups)
    missing = sorted(set(wanted) - {str(each["GroupId"]) for each in groups})
    if missing:
        return failed(label, f"security group {', '.join(missing)} is gone", BY_HAND)
    ways = {"IpPermissions": "in", "IpPermissionsEgress": "out"}
    lacking = [
        way for key, way in ways.items() if not any(_lets_itself(each, key) for each in groups)
    ]
    if lacking or not groups:
        way = " and ".join(lacking)
        return failed(label, f"the security group has no rule for itself, {way}", BY_HAND)
    ids = ", ".join(str(each["GroupId"]) for each in groups)
    return ok(label, f"security group {ids} lets its members send each other anything")


def _lets_itself(group: Mapping[str, Any], key: str) -> bool:
    return any(
        rule.get("IpProtocol") == "-1"
        and any(
            pair.get("GroupId") == group["GroupId"] for pair in rule.get("UserIdGroupPairs", ())
        )
        for rule in group.get(key, ())
    )


def _table_of(
    subnet: Mapping[str, Any], tables: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The one that it is associated with, or else its network's main one."""
    mine = [each for each in tables if each.get("VpcId") == subnet["VpcId"]]
    for each in mine:
        if any(a.get("SubnetId") == subnet["SubnetId"] for a in each.get("Associations", ())):
            return each
    return next((t for t in mine if any(a.get("Main") for a in t.get("Associations", ()))), None)
