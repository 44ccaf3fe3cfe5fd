"""Ways out of a network, of the double's AWS provider: gateways, addresses, endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.double.cloud import code_of, until
from tests.infra.double.kinds import kind
from tests.infra.double.providers.base import Ec2Kind, given
from tests.infra.double.values import Props


@kind("aws:ec2/internetGateway:InternetGateway")
class InternetGateway(Ec2Kind):
    what = "EC2 Internet Gateway"
    tagged, describe = "internet-gateway", "describe_internet_gateways"
    listed, key = "InternetGateways", "InternetGatewayId"

    def create(self, inputs: Props) -> str:
        made = self.ec2.create_internet_gateway(**self.specifications(inputs))
        return str(made["InternetGateway"]["InternetGatewayId"])

    def settle(self, id: str, inputs: Props) -> None:
        found = self.one(id) or {}
        have = {each["VpcId"] for each in found.get("Attachments") or []}
        want = {inputs["vpcId"]} if inputs.get("vpcId") else set()
        for vpc in have - want:
            self.ec2.detach_internet_gateway(InternetGatewayId=id, VpcId=vpc)
        for vpc in want - have:
            self.ec2.attach_internet_gateway(InternetGatewayId=id, VpcId=vpc)

    def read(self, id: str, known: Props) -> Props | None:
        found = self.one(id)
        if found is None:
            return None
        arn = self.arn(f"internet-gateway/{id}")
        return {"arn": arn, "ownerId": self.cloud.account, **self.with_tags(found)}

    def delete(self, id: str, known: Props) -> None:
        found = self.one(id)
        for each in (found or {}).get("Attachments") or []:
            self.ec2.detach_internet_gateway(InternetGatewayId=id, VpcId=each["VpcId"])
        self.ended(self.ec2.delete_internet_gateway, InternetGatewayId=id)


@kind("aws:ec2/eip:Eip")
class Eip(Ec2Kind):
    what = "EC2 EIP"
    tagged, describe = "elastic-ip", "describe_addresses"
    listed, key = "Addresses", "AllocationId"
    replaces = frozenset({"domain"})

    def create(self, inputs: Props) -> str:
        asked = {"Domain": inputs.get("domain", "vpc"), **self.specifications(inputs)}
        return str(self.ec2.allocate_address(**asked)["AllocationId"])

    def read(self, id: str, known: Props) -> Props | None:
        found = self.one(id)
        if found is None:
            return None
        arn = self.arn(f"elastic-ip/{id}")
        told = {"allocationId": id, "arn": arn, "publicIp": found["PublicIp"]}
        return {**told, "domain": found.get("Domain", "vpc"), **self.with_tags(found)}

    def delete(self, id: str, known: Props) -> None:
        self.ended(self.ec2.release_address, AllocationId=id)


@kind("aws:ec2/natGateway:NatGateway")
class NatGateway(Ec2Kind):
    what = "EC2 NAT Gateway"
    tagged, describe = "natgateway", "describe_nat_gateways"
    listed, key = "NatGateways", "NatGatewayId"
    replaces = frozenset({"allocationId", "subnetId", "connectivityType"})

    def create(self, inputs: Props) -> str:
        asked = given(
            inputs,
            SubnetId="subnetId",
            AllocationId="allocationId",
            ConnectivityType="connectivityType",
        )
        made = self.ec2.create_nat_gateway(**asked, **self.specifications(inputs))
        id = str(made["NatGateway"]["NatGatewayId"])
        until(lambda: (self.one(id) or {}).get("State") == "available", f"NAT gateway {id}")
        return id

    def read(self, id: str, known: Props) -> Props | None:
        found = self.one(id)
        if found is None or found.get("State") in ("deleted", "deleting"):
            return None
        address = (found.get("NatGatewayAddresses") or [{}])[0]
        return {
            "publicIp": address.get("PublicIp", ""),
            "privateIp": address.get("PrivateIp", ""),
            "networkInterfaceId": address.get("NetworkInterfaceId", ""),
            **self.with_tags(found),
        }

    def find(self, inputs: Props) -> str | None:
        here = [{"Name": "subnet-id", "Values": [inputs["subnetId"]]}]
        found = self.ec2.describe_nat_gateways(Filters=here)["NatGateways"]
        living = [each for each in found if each["State"] in ("pending", "available")]
        return str(living[0]["NatGatewayId"]) if living else None

    def delete(self, id: str, known: Props) -> None:
        self.ended(self.ec2.delete_nat_gateway, NatGatewayId=id)
        until(lambda: self.read(id, known) is None, f"NAT gateway {id}")


@kind("aws:ec2/vpcEndpoint:VpcEndpoint")
class VpcEndpoint(Ec2Kind):
    what = "EC2 VPC Endpoint"
    tagged, describe = "vpc-endpoint", "describe_vpc_endpoints"
    listed, key = "VpcEndpoints", "VpcEndpointId"
    replaces = frozenset({"vpcId", "serviceName", "vpcEndpointType"})
    json = frozenset({"policy"})

    def create(self, inputs: Props) -> str:
        asked = given(
            inputs,
            VpcId="vpcId",
            ServiceName="serviceName",
            PolicyDocument="policy",
            RouteTableIds="routeTableIds",
            SubnetIds="subnetIds",
            SecurityGroupIds="securityGroupIds",
            PrivateDnsEnabled="privateDnsEnabled",
        )
        asked["VpcEndpointType"] = inputs.get("vpcEndpointType") or "Gateway"
        made = self.ec2.create_vpc_endpoint(**asked, **self.specifications(inputs))
        return str(made["VpcEndpoint"]["VpcEndpointId"])

    def update(self, id: str, old: Props, new: Props) -> None:
        asked: Props = {}
        for name, theirs in (
            ("routeTableIds", "RouteTableIds"),
            ("subnetIds", "SubnetIds"),
            ("securityGroupIds", "SecurityGroupIds"),
        ):
            before, after = set(old.get(name) or ()), set(new.get(name) or ())
            if after - before:
                asked[f"Add{theirs}"] = sorted(after - before)
            if before - after:
                asked[f"Remove{theirs}"] = sorted(before - after)
        if new.get("policy") and new.get("policy") != old.get("policy"):
            asked["PolicyDocument"] = new["policy"]
        if asked:
            self.ec2.modify_vpc_endpoint(VpcEndpointId=id, **asked)
        super().update(id, old, new)

    def read(self, id: str, known: Props) -> Props | None:
        found = self.one(id)
        if found is None or found.get("State") == "deleted":
            return None
        return {
            "arn": self.arn(f"vpc-endpoint/{id}"),
            "state": found.get("State", "available"),
            "ownerId": self.cloud.account,
            "networkInterfaceIds": found.get("NetworkInterfaceIds") or [],
            "prefixListId": "pl-63a5400a",
            **self.with_tags(found),
        }

    def matches(self, found: Mapping[str, Any], inputs: Props) -> bool:
        same = found["ServiceName"] == inputs["serviceName"]
        return bool(same and found["VpcId"] == inputs["vpcId"])

    def delete(self, id: str, known: Props) -> None:
        if self.read(id, known) is None:  # EC2 tells of one for a while after its end
            return
        try:
            self.ec2.delete_vpc_endpoints(VpcEndpointIds=[id])
        except self.ec2.exceptions.ClientError as error:
            if code_of(error) != "InvalidVpcEndpointId.NotFound":
                raise
