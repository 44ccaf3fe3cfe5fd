"""A network can be made whole, and taken apart in the right order alone, as in AWS."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.rehearsal.lab import Lab, code_of

INTERNET = "0.0.0.0/0"


def tags(what: str) -> list[dict[str, Any]]:
    return [{"ResourceType": what, "Tags": [{"Key": "burst:cluster", "Value": "lab"}]}]


def itself(group: str, description: str = "") -> list[dict[str, Any]]:
    pair = {"GroupId": group, **({"Description": description} if description else {})}
    return [{"IpProtocol": "-1", "UserIdGroupPairs": [pair]}]


class Network:
    """All that a stack may have, by what it is."""

    def __init__(self, ec2: Any) -> None:
        self.ec2 = ec2
        self.vpc = ec2.create_vpc(CidrBlock="10.86.0.0/16", TagSpecifications=tags("vpc"))["Vpc"][
            "VpcId"
        ]
        self.subnet = ec2.create_subnet(
            VpcId=self.vpc,
            CidrBlock="10.86.0.0/20",
            AvailabilityZone="us-east-1a",
            TagSpecifications=tags("subnet"),
        )["Subnet"]["SubnetId"]
        self.table = ec2.create_route_table(VpcId=self.vpc, TagSpecifications=tags("route-table"))[
            "RouteTable"
        ]["RouteTableId"]
        self.association = ec2.associate_route_table(
            RouteTableId=self.table, SubnetId=self.subnet
        )["AssociationId"]
        self.group = ec2.create_security_group(
            GroupName="nodes",
            Description="nodes",
            VpcId=self.vpc,
            TagSpecifications=tags("security-group"),
        )["GroupId"]
        self.rule = ec2.authorize_security_group_ingress(
            GroupId=self.group,
            IpPermissions=itself(self.group, "all"),
            TagSpecifications=tags("security-group-rule"),
        )["SecurityGroupRules"][0]["SecurityGroupRuleId"]
        self.s3 = self.endpoint("s3", VpcEndpointType="Gateway", RouteTableIds=[self.table])

    def endpoint(self, service: str, **more: Any) -> str:
        made = self.ec2.create_vpc_endpoint(
            VpcId=self.vpc,
            ServiceName=f"com.amazonaws.us-east-1.{service}",
            TagSpecifications=tags("vpc-endpoint"),
            **more,
        )
        id: str = made["VpcEndpoint"]["VpcEndpointId"]
        return id

    def routes(self) -> list[str]:
        """Where its own table leads, beside itself."""
        found = self.ec2.describe_route_tables(RouteTableIds=[self.table])["RouteTables"]
        return [
            each.get("GatewayId") or each["NatGatewayId"]
            for each in found[0]["Routes"]
            if each.get("GatewayId") != "local"
        ]

    def tagged(self) -> set[str]:
        return {each["ResourceId"] for each in self.ec2.describe_tags()["Tags"]}

    def remove(self) -> None:
        """What there is at first, in the order that AWS wants."""
        self.ec2.delete_vpc_endpoints(VpcEndpointIds=[self.s3])
        self.ec2.disassociate_route_table(AssociationId=self.association)
        self.ec2.delete_route_table(RouteTableId=self.table)
        self.ec2.delete_subnet(SubnetId=self.subnet)
        self.ec2.delete_security_group(GroupId=self.group)
        self.ec2.delete_vpc(VpcId=self.vpc)


@pytest.fixture
def network(cloud: Lab) -> Network:
    return Network(cloud.ec2)


def test_it_goes_without_a_trace_in_the_right_order(network: Network) -> None:
    mine = {
        network.vpc,
        network.subnet,
        network.table,
        network.group,
        network.rule,
        network.s3,
    }
    assert mine <= network.tagged()
    network.remove()
    assert not mine & network.tagged()
    gone: dict[str, Callable[[], Any]] = {
        "InvalidVpcID.NotFound": lambda: network.ec2.describe_vpcs(VpcIds=[network.vpc]),
        "InvalidSubnetID.NotFound": lambda: network.ec2.describe_subnets(
            SubnetIds=[network.subnet]
        ),
        "InvalidRouteTableID.NotFound": lambda: network.ec2.describe_route_tables(
            RouteTableIds=[network.table]
        ),
        "InvalidGroup.NotFound": lambda: network.ec2.describe_security_groups(
            GroupIds=[network.group]
        ),
        "InvalidVpcEndpointId.NotFound": lambda: network.ec2.describe_vpc_endpoints(
            VpcEndpointIds=[network.s3]
        ),
    }
    assert [code_of(call) for call in gone.values()] == list(gone)


def test_a_network_stays_while_anything_of_it_does(network: Network) -> None:
    ec2 = network.ec2

    def refused(call: Callable[[], Any]) -> None:
        assert code_of(call) == "DependencyViolation"

    refused(lambda: ec2.delete_vpc(VpcId=network.vpc))
    refused(lambda: ec2.delete_route_table(RouteTableId=network.table))
    ec2.delete_vpc_endpoints(VpcEndpointIds=[network.s3])
    ec2.disassociate_route_table(AssociationId=network.association)
    ec2.delete_route_table(RouteTableId=network.table)
    ec2.delete_subnet(SubnetId=network.subnet)
    refused(lambda: ec2.delete_vpc(VpcId=network.vpc))  # its group
    ec2.delete_security_group(GroupId=network.group)
    internet = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=internet, VpcId=network.vpc)
    refused(lambda: ec2.delete_vpc(VpcId=network.vpc))
    refused(lambda: ec2.delete_internet_gateway(InternetGatewayId=internet))
    ec2.detach_internet_gateway(InternetGatewayId=internet, VpcId=network.vpc)
    ec2.delete_internet_gateway(InternetGatewayId=internet)
    ec2.delete_vpc(VpcId=network.vpc)


def test_an_interface_of_an_endpoint_holds_its_subnet_and_its_group(network: Network) -> None:
    ec2 = network.ec2
    id = network.endpoint(
        "ssm",
        VpcEndpointType="Interface",
        SubnetIds=[network.subnet],
        SecurityGroupIds=[network.group],
        PrivateDnsEnabled=True,
    )
    filters = [{"Name": "vpc-id", "Values": [network.vpc]}]
    [interface] = ec2.describe_network_interfaces(Filters=filters)["NetworkInterfaces"]
    assert interface["InterfaceType"] == "vpc_endpoint"
    assert [each["GroupId"] for each in interface["Groups"]] == [network.group]
    assert code_of(lambda: ec2.delete_subnet(SubnetId=network.subnet)) == "DependencyViolation"
    assert code_of(lambda: ec2.delete_security_group(GroupId=network.group)) == (
        "DependencyViolation"
    )
    ec2.delete_vpc_endpoints(VpcEndpointIds=[id])
    assert ec2.describe_network_interfaces(Filters=filters)["NetworkInterfaces"] == []
    network.remove()


def test_a_group_that_another_names_stays(network: Network) -> None:
    ec2 = network.ec2
    other = ec2.create_security_group(
        GroupName="endpoints", Description="endpoints", VpcId=network.vpc
    )["GroupId"]
    [rule] = ec2.authorize_security_group_ingress(
        GroupId=other, IpPermissions=itself(network.group)
    )["SecurityGroupRules"]
    assert code_of(lambda: ec2.delete_security_group(GroupId=network.group)) == (
        "DependencyViolation"
    )
    ids = [rule["SecurityGroupRuleId"]]
    ec2.revoke_security_group_ingress(GroupId=other, SecurityGroupRuleIds=ids)
    ec2.delete_security_group(GroupId=other)
    network.remove()


def test_a_rule_is_there_once_and_can_be_changed_and_revoked_by_its_id(network: Network) -> None:
    ec2, group = network.ec2, network.group

    def again() -> Any:
        return ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself(group))

    assert code_of(again) == "InvalidPermission.Duplicate"
    said = {"IpProtocol": "-1", "ReferencedGroupId": group, "Description": "among themselves"}
    rule = {"SecurityGroupRuleId": network.rule, "SecurityGroupRule": said}
    ec2.modify_security_group_rules(GroupId=group, SecurityGroupRules=[rule])
    found = ec2.describe_security_group_rules(SecurityGroupRuleIds=[network.rule])
    assert found["SecurityGroupRules"][0]["Description"] == "among themselves"

    def revoke() -> Any:
        return ec2.revoke_security_group_ingress(
            GroupId=group, SecurityGroupRuleIds=[network.rule]
        )

    revoke()
    assert network.rule not in network.tagged()
    assert code_of(revoke) == "InvalidSecurityGroupRuleId.NotFound"
    again()
    network.remove()


def test_a_nat_gateway_holds_its_address_and_the_way_out_until_it_is_gone(
    network: Network,
) -> None:
    ec2 = network.ec2
    internet = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=internet, VpcId=network.vpc)
    address = ec2.allocate_address(Domain="vpc", TagSpecifications=tags("elastic-ip"))
    id = address["AllocationId"]
    nat = ec2.create_nat_gateway(
        SubnetId=network.subnet, AllocationId=id, TagSpecifications=tags("natgateway")
    )["NatGateway"]["NatGatewayId"]
    ec2.create_route(RouteTableId=network.table, DestinationCidrBlock=INTERNET, NatGatewayId=nat)
    assert nat in network.routes()
    assert code_of(lambda: ec2.release_address(AllocationId=id)) == "InvalidIPAddress.InUse"
    assert code_of(
        lambda: ec2.detach_internet_gateway(InternetGatewayId=internet, VpcId=network.vpc)
    ) == ("DependencyViolation")
    assert code_of(lambda: ec2.delete_subnet(SubnetId=network.subnet)) == "DependencyViolation"
    ec2.delete_nat_gateway(NatGatewayId=nat)
    [seen] = ec2.describe_nat_gateways(NatGatewayIds=[nat])["NatGateways"]
    assert seen["State"] == "deleted"
    ec2.release_address(AllocationId=id)
    assert code_of(lambda: ec2.release_address(AllocationId=id)) == (
        "InvalidAllocationID.NotFound"
    )
    ec2.delete_route(RouteTableId=network.table, DestinationCidrBlock=INTERNET)
    ec2.detach_internet_gateway(InternetGatewayId=internet, VpcId=network.vpc)
    ec2.delete_internet_gateway(InternetGatewayId=internet)
    assert id not in network.tagged()
    network.remove()


def test_an_endpoint_has_the_policy_that_it_was_given_last(network: Network) -> None:
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "*"}]}
    network.ec2.modify_vpc_endpoint(VpcEndpointId=network.s3, PolicyDocument=json.dumps(policy))
    [found] = network.ec2.describe_vpc_endpoints(VpcEndpointIds=[network.s3])["VpcEndpoints"]
    assert json.loads(found["PolicyDocument"]) == policy
    assert network.routes() == [network.s3]
    network.remove()


def test_a_template_that_is_not_there_is_told_by_its_id(cloud: Lab) -> None:
    name = cloud.template()
    [found] = cloud.ec2.describe_launch_templates(LaunchTemplateNames=[name])["LaunchTemplates"]
    id = found["LaunchTemplateId"]
    cloud.ec2.delete_launch_template(LaunchTemplateId=id)
    for call in (
        lambda: cloud.ec2.describe_launch_templates(LaunchTemplateIds=[id]),
        lambda: cloud.ec2.delete_launch_template(LaunchTemplateId=id),
    ):
        assert code_of(call) == "InvalidLaunchTemplateId.NotFound"
