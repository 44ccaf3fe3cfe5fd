"""Networks of the double's AWS provider: VPCs, subnets, route tables and what ties them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.double.cloud import code_of
from tests.infra.double.kinds import Kind, kind
from tests.infra.double.providers.base import Ec2Kind, given, quietly
from tests.infra.double.values import Props


@kind("aws:ec2/vpc:Vpc")
class Vpc(Ec2Kind):
    what = "EC2 VPC"
    tagged, describe, listed, key = "vpc", "describe_vpcs", "Vpcs", "VpcId"
    replaces = frozenset({"cidrBlock", "instanceTenancy"})

    def create(self, inputs: Props) -> str:
        asked = given(inputs, CidrBlock="cidrBlock", InstanceTenancy="instanceTenancy")
        return str(self.ec2.create_vpc(**asked, **self.specifications(inputs))["Vpc"]["VpcId"])

    def settle(self, id: str, inputs: Props) -> None:
        flags = {"enableDnsSupport": True, "enableDnsHostnames": False}
        for name, otherwise in flags.items():
            value = {"Value": bool(inputs.get(name, otherwise))}
            self.ec2.modify_vpc_attribute(VpcId=id, **{name[0].upper() + name[1:]: value})

    def read(self, id: str, known: Props) -> Props | None:
        found = self.one(id)
        if found is None:
            return None
        here = [{"Name": "vpc-id", "Values": [id]}]
        main = [*here, {"Name": "association.main", "Values": ["true"]}]
        default = [*here, {"Name": "group-name", "Values": ["default"]}]
        tables = self.ec2.describe_route_tables(Filters=main)["RouteTables"]
        groups = self.ec2.describe_security_groups(Filters=default)["SecurityGroups"]
        table = tables[0]["RouteTableId"] if tables else ""
        return {
            "arn": self.arn(f"vpc/{id}"),
            "cidrBlock": found["CidrBlock"],
            "ownerId": self.cloud.account,
            "mainRouteTableId": table,
            "defaultRouteTableId": table,
            "defaultSecurityGroupId": groups[0]["GroupId"] if groups else "",
            "dhcpOptionsId": found.get("DhcpOptionsId", ""),
            **self.with_tags(found),
        }

    def delete(self, id: str, known: Props) -> None:
        self.ended(self.ec2.delete_vpc, VpcId=id)


@kind("aws:ec2/subnet:Subnet")
class Subnet(Ec2Kind):
    what = "EC2 Subnet"
    tagged, describe, listed, key = "subnet", "describe_subnets", "Subnets", "SubnetId"
    replaces = frozenset({"vpcId", "cidrBlock", "availabilityZone", "availabilityZoneId"})

    def create(self, inputs: Props) -> str:
        asked = given(
            inputs,
            VpcId="vpcId",
            CidrBlock="cidrBlock",
            AvailabilityZone="availabilityZone",
            AvailabilityZoneId="availabilityZoneId",
        )
        made = self.ec2.create_subnet(**asked, **self.specifications(inputs))
        return str(made["Subnet"]["SubnetId"])

    def settle(self, id: str, inputs: Props) -> None:
        if "mapPublicIpOnLaunch" in inputs:
            value = {"Value": bool(inputs["mapPublicIpOnLaunch"])}
            self.ec2.modify_subnet_attribute(SubnetId=id, MapPublicIpOnLaunch=value)

    def read(self, id: str, known: Props) -> Props | None:
        found = self.one(id)
        if found is None:
            return None
        return {
            "arn": self.arn(f"subnet/{id}"),
            "vpcId": found["VpcId"],
            "cidrBlock": found["CidrBlock"],
            "availabilityZone": found["AvailabilityZone"],
            "availabilityZoneId": found.get("AvailabilityZoneId", ""),
            "mapPublicIpOnLaunch": bool(found.get("MapPublicIpOnLaunch")),
            "ownerId": self.cloud.account,
            **self.with_tags(found),
        }

    def matches(self, found: Mapping[str, Any], inputs: Props) -> bool:
        return bool(
            found["VpcId"] == inputs["vpcId"] and found["CidrBlock"] == inputs["cidrBlock"]
        )

    def delete(self, id: str, known: Props) -> None:
        self.ended(self.ec2.delete_subnet, SubnetId=id)


@kind("aws:ec2/routeTable:RouteTable")
class RouteTable(Ec2Kind):
    """Routes within it (`routes`) are refused: `Route` is what one uses."""

    what = "EC2 Route Table"
    tagged, describe = "route-table", "describe_route_tables"
    listed, key = "RouteTables", "RouteTableId"
    replaces = frozenset({"vpcId"})

    def create(self, inputs: Props) -> str:
        if inputs.get("routes"):
            raise ValueError("the double takes routes as resources of their own alone")
        made = self.ec2.create_route_table(VpcId=inputs["vpcId"], **self.specifications(inputs))
        return str(made["RouteTable"]["RouteTableId"])

    def read(self, id: str, known: Props) -> Props | None:
        found = self.one(id)
        if found is None:
            return None
        arn = self.arn(f"route-table/{id}")
        told = {"arn": arn, "vpcId": found["VpcId"], "ownerId": self.cloud.account}
        return {**told, **self.with_tags(found)}

    def matches(self, found: Mapping[str, Any], inputs: Props) -> bool:
        return bool(found["VpcId"] == inputs["vpcId"])

    def delete(self, id: str, known: Props) -> None:
        self.ended(self.ec2.delete_route_table, RouteTableId=id)


_TARGETS = {
    "GatewayId": "gatewayId",
    "NatGatewayId": "natGatewayId",
    "VpcEndpointId": "vpcEndpointId",
    "NetworkInterfaceId": "networkInterfaceId",
}


@kind("aws:ec2/route:Route")
class Route(Kind):
    what = "EC2 Route"
    replaces = frozenset({"routeTableId", "destinationCidrBlock", "destinationIpv6CidrBlock"})

    @property
    def ec2(self) -> Any:
        return self.cloud.client("ec2")

    def _asked(self, inputs: Props) -> Props:
        return given(
            inputs, RouteTableId="routeTableId", DestinationCidrBlock="destinationCidrBlock"
        )

    def create(self, inputs: Props) -> str:
        self.ec2.create_route(**self._asked(inputs), **given(inputs, **_TARGETS))
        return f"r-{inputs['routeTableId']}{hash_of(inputs['destinationCidrBlock'])}"

    def update(self, id: str, old: Props, new: Props) -> None:
        self.ec2.replace_route(**self._asked(new), **given(new, **_TARGETS))

    def read(self, id: str, known: Props) -> Props | None:
        found = self._route(known)
        if found is None:
            return None
        return {"origin": "CreateRoute", "state": found.get("State", "active")}

    def _route(self, known: Props) -> Props | None:
        told = quietly(self.ec2.describe_route_tables, RouteTableIds=[known["routeTableId"]])
        for table in told["RouteTables"] if told else ():
            for route in table["Routes"]:
                if route.get("DestinationCidrBlock") == known["destinationCidrBlock"]:
                    return dict(route)
        return None

    def find(self, inputs: Props) -> str | None:
        if self._route(inputs) is None:
            return None
        return f"r-{inputs['routeTableId']}{hash_of(inputs['destinationCidrBlock'])}"

    def delete(self, id: str, known: Props) -> None:
        quietly(self.ec2.delete_route, **self._asked(known))


@kind("aws:ec2/routeTableAssociation:RouteTableAssociation")
class RouteTableAssociation(Kind):
    what = "EC2 Route Table Association"
    replaces = frozenset({"subnetId", "gatewayId"})

    @property
    def ec2(self) -> Any:
        return self.cloud.client("ec2")

    def create(self, inputs: Props) -> str:
        asked = given(
            inputs, RouteTableId="routeTableId", SubnetId="subnetId", GatewayId="gatewayId"
        )
        return str(self.ec2.associate_route_table(**asked)["AssociationId"])

    def update(self, id: str, old: Props, new: Props) -> None:
        raise ValueError("the double does not move an association to another table")

    def read(self, id: str, known: Props) -> Props | None:
        return {} if self._id(known) == id else None

    def _id(self, known: Props) -> str | None:
        told = quietly(self.ec2.describe_route_tables, RouteTableIds=[known["routeTableId"]])
        for table in told["RouteTables"] if told else ():
            for each in table["Associations"]:
                if each.get("SubnetId") and each.get("SubnetId") == known.get("subnetId"):
                    return str(each["RouteTableAssociationId"])
        return None

    def find(self, inputs: Props) -> str | None:
        return self._id(inputs)

    def delete(self, id: str, known: Props) -> None:
        try:
            quietly(self.ec2.disassociate_route_table, AssociationId=id)
        except self.ec2.exceptions.ClientError as error:
            if code_of(error) != "InvalidAssociationID.NotFound":
                raise


def hash_of(text: str) -> int:
    """A number that stands for a text in the ids that the provider itself makes."""
    import zlib

    return zlib.crc32(text.encode())
