"""The network and what machines are made from, in the order in which it can be removed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from burst.core.aws.answers import code_in
from burst.infra.account.sorts import Look, Sort, pages

_ENDED = ("deleted", "deleting", "failed")


def _sort(
    kind: str, type: str, listing: tuple[str, str, str], delete: str, by_hand: str, **how: Any
) -> Sort:
    """
    Args:
        listing: EC2's operation, and in its answer the list and the name of the id.
    """
    operation, key, id = listing

    def find(look: Look) -> Iterable[str]:
        asked = {how.get("filters", "Filters"): look.filters}
        for each in pages(look.client("ec2"), operation, key, **asked):
            is_there = str(each.get("State", "")).lower() not in _ENDED
            # Whatever the filter let through: what is removed goes by its own tags.
            if look.owns(each.get("Tags")) and is_there and not _is_given(each):
                yield str(each[id])

    def remove(look: Look, one: str) -> None:
        ec2 = look.client("ec2")
        before = how.get("before")
        if before is not None:
            before(ec2, one)
        getattr(ec2, delete)(**{how.get("argument", id): how.get("wrap", str)(one)})

    return Sort(kind, f"aws:ec2/{type}", find, remove, f"aws ec2 {by_hand} {{id}}")


def _is_given(each: Any) -> bool:
    """What comes and goes with the VPC: its main route table, its default security group."""
    main = any(one.get("Main") for one in each.get("Associations") or [])
    return main or each.get("GroupName") == "default"


def _detach(ec2: Any, gateway: str) -> None:
    found = ec2.describe_internet_gateways(InternetGatewayIds=[gateway])["InternetGateways"]
    for each in found:
        for attached in each.get("Attachments") or []:
            ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=attached["VpcId"])


def _disassociate(ec2: Any, table: str) -> None:
    found = ec2.describe_route_tables(RouteTableIds=[table])["RouteTables"]
    for each in found:
        for one in each.get("Associations") or []:
            if not one.get("Main"):
                ec2.disassociate_route_table(AssociationId=one["RouteTableAssociationId"])


def _forget_others(ec2: Any, group: str) -> None:
    """Groups that name each other keep each other."""
    for each in ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]:
        for rules, revoke in (
            (each.get("IpPermissions"), ec2.revoke_security_group_ingress),
            (each.get("IpPermissionsEgress"), ec2.revoke_security_group_egress),
        ):
            if rules:
                try:
                    revoke(GroupId=group, IpPermissions=rules)
                except Exception as error:
                    if code_in(error) != "InvalidPermission.NotFound":
                        raise


def _rules(look: Look) -> Iterable[str]:
    found = pages(
        look.client("ec2"),
        "describe_security_group_rules",
        "SecurityGroupRules",
        Filters=look.filters,
    )
    return [str(each["SecurityGroupRuleId"]) for each in found if look.owns(each.get("Tags"))]


def _remove_rule(look: Look, id: str) -> None:
    ec2 = look.client("ec2")
    answer = ec2.describe_security_group_rules(SecurityGroupRuleIds=[id])
    for each in answer["SecurityGroupRules"]:
        outwards = each.get("IsEgress")
        revoke = (
            ec2.revoke_security_group_egress if outwards else ec2.revoke_security_group_ingress
        )
        revoke(GroupId=each["GroupId"], SecurityGroupRuleIds=[id])


NETWORK = (
    _sort(
        "launch template",
        "launchTemplate:LaunchTemplate",
        ("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
        "delete_launch_template",
        "delete-launch-template --launch-template-id",
    ),
    _sort(
        "NAT gateway",
        "natGateway:NatGateway",
        ("describe_nat_gateways", "NatGateways", "NatGatewayId"),
        "delete_nat_gateway",
        "delete-nat-gateway --nat-gateway-id",
        filters="Filter",
    ),
    _sort(
        "VPC endpoint",
        "vpcEndpoint:VpcEndpoint",
        ("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
        "delete_vpc_endpoints",
        "delete-vpc-endpoints --vpc-endpoint-ids",
        argument="VpcEndpointIds",
        wrap=lambda one: [one],
    ),
    _sort(
        "elastic IP",
        "eip:Eip",
        ("describe_addresses", "Addresses", "AllocationId"),
        "release_address",
        "release-address --allocation-id",
    ),
    _sort(
        "internet gateway",
        "internetGateway:InternetGateway",
        ("describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
        "delete_internet_gateway",
        "delete-internet-gateway --internet-gateway-id",
        before=_detach,
    ),
    _sort(
        "subnet",
        "subnet:Subnet",
        ("describe_subnets", "Subnets", "SubnetId"),
        "delete_subnet",
        "delete-subnet --subnet-id",
    ),
    _sort(
        "route table",
        "routeTable:RouteTable",
        ("describe_route_tables", "RouteTables", "RouteTableId"),
        "delete_route_table",
        "delete-route-table --route-table-id",
        before=_disassociate,
    ),
    Sort(
        "security group rule",
        "aws:vpc/securityGroupRule",  # of either direction
        _rules,
        _remove_rule,
        "aws ec2 describe-security-group-rules --security-group-rule-ids {id}",
    ),
    _sort(
        "security group",
        "securityGroup:SecurityGroup",
        ("describe_security_groups", "SecurityGroups", "GroupId"),
        "delete_security_group",
        "delete-security-group --group-id",
        before=_forget_others,
    ),
    _sort(
        "VPC",
        "vpc:Vpc",
        ("describe_vpcs", "Vpcs", "VpcId"),
        "delete_vpc",
        "delete-vpc --vpc-id",
    ),
)
