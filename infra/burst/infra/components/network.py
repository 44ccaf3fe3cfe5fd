"""Where nodes are: a network of the cluster's own, with a way to S3 and DynamoDB and no other.

Private subnets have no route to the internet and cost nothing. What costs by the hour (endpoints
of further services, a NAT gateway) is there only if the cluster file asks for it, and then in one
zone: the others reach it there, for a cent per GB.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import ec2, vpc

from burst.infra.services import SERVICES

_PARTS_OF_16 = 16
_PUBLIC = 15
"""The sixteenth of the network that the NAT gateway's subnet has."""
_GATEWAYS = "public"


@dataclass(frozen=True)
class NetworkArgs:
    cluster: str
    region: str
    cidr: str
    """`10.86.0.0/16`."""
    zones: Sequence[str]
    nat: bool
    endpoints: Sequence[str]
    """Words of SERVICES."""
    tags: Mapping[str, str]


class Network(pulumi.ComponentResource):
    """A VPC with a private subnet a zone, and the security group of the nodes."""

    vpc_id: pulumi.Output[str]
    subnets: Mapping[str, pulumi.Output[str]]
    """By zone."""
    security_group: pulumi.Output[str]

    def __init__(
        self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("burst:infra:Network", name, None, opts)
        self._args = args
        self._own = pulumi.ResourceOptions(parent=self)
        self._vpc = ec2.Vpc(
            "vpc",
            cidr_block=args.cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,  # without it endpoints have no names of their own
            tags=self._tagged("vpc"),
            opts=self._own,
        )
        self.vpc_id = self._vpc.id
        private = self._private()
        self._gateways(private)
        self.security_group = self._nodes_group()
        if args.nat:
            self._nat(private)
        if args.endpoints:
            self._services()
        self.register_outputs({"vpc": self.vpc_id})

    def _private(self) -> ec2.RouteTable:
        table = self._route_table("private")
        subnets = {}
        for zone, cidr in subnet_cidrs(self._args.cidr, self._args.zones).items():
            subnet = self._subnet(zone, zone, cidr)
            self._associate(zone, subnet, table)
            subnets[zone] = subnet.id
        self.subnets = subnets
        return table

    def _gateways(self, table: ec2.RouteTable) -> None:
        """S3 and DynamoDB by routes, which cost nothing."""
        for service in ("s3", "dynamodb"):
            ec2.VpcEndpoint(
                service,
                vpc_id=self.vpc_id,
                service_name=f"com.amazonaws.{self._args.region}.{service}",
                vpc_endpoint_type="Gateway",
                route_table_ids=[table.id],
                tags=self._tagged(service),
                opts=self._own,
            )

    def _nodes_group(self) -> pulumi.Output[str]:
        """Nodes among themselves, whatever they say; outwards, where routes lead; nothing else."""
        group = self._group("nodes", "nodes of burst among themselves")
        itself: dict[str, Any] = {
            "security_group_id": group.id,
            "referenced_security_group_id": group.id,
            "ip_protocol": "-1",
            "opts": self._own,
        }
        vpc.SecurityGroupIngressRule("nodes-from-nodes", tags=self._tagged("in"), **itself)
        # EFA needs it although all may go out: what bypasses the kernel goes by this rule alone.
        vpc.SecurityGroupEgressRule("nodes-to-nodes", tags=self._tagged("among"), **itself)
        vpc.SecurityGroupEgressRule(
            "nodes-out",
            security_group_id=group.id,
            cidr_ipv4="0.0.0.0/0",
            ip_protocol="-1",
            tags=self._tagged("out"),
            opts=self._own,
        )
        id: pulumi.Output[str] = group.id
        return id

    def _nat(self, private: ec2.RouteTable) -> None:
        zone = self._args.zones[0]
        gateway = ec2.InternetGateway(
            "internet", vpc_id=self.vpc_id, tags=self._tagged("internet"), opts=self._own
        )
        table = self._route_table("public")
        self._route("public-out", table, gateway_id=gateway.id)
        parts = list(ipaddress.ip_network(self._args.cidr).subnets(prefixlen_diff=4))
        public = self._subnet(_GATEWAYS, zone, str(parts[_PUBLIC]))
        self._associate(_GATEWAYS, public, table)
        address = ec2.Eip("nat", domain="vpc", tags=self._tagged("nat"), opts=self._own)
        nat = ec2.NatGateway(
            "nat",
            allocation_id=address.allocation_id,
            subnet_id=public.id,
            tags=self._tagged("nat"),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[gateway]),
        )
        self._route("private-out", private, nat_gateway_id=nat.id)

    def _services(self) -> None:
        group = self._group("endpoints", "AWS's services, for nodes of burst")
        vpc.SecurityGroupIngressRule(
            "endpoints-from-nodes",
            security_group_id=group.id,
            referenced_security_group_id=self.security_group,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            tags=self._tagged("endpoints"),
            opts=self._own,
        )
        for word in dict.fromkeys(self._args.endpoints):
            for service in SERVICES[word]:
                ec2.VpcEndpoint(
                    service,
                    vpc_id=self.vpc_id,
                    service_name=f"com.amazonaws.{self._args.region}.{service}",
                    vpc_endpoint_type="Interface",
                    private_dns_enabled=True,
                    subnet_ids=[self.subnets[self._args.zones[0]]],
                    security_group_ids=[group.id],
                    tags=self._tagged(service),
                    opts=self._own,
                )

    def _subnet(self, name: str, zone: str, cidr: str) -> ec2.Subnet:
        return ec2.Subnet(
            name,
            vpc_id=self.vpc_id,
            availability_zone=zone,
            cidr_block=cidr,
            # That of the gateway says so: the runner has no node start where it holds.
            map_public_ip_on_launch=name == _GATEWAYS,
            tags=self._tagged(name),
            opts=self._own,
        )

    def _route_table(self, name: str) -> ec2.RouteTable:
        return ec2.RouteTable(name, vpc_id=self.vpc_id, tags=self._tagged(name), opts=self._own)

    def _associate(self, name: str, subnet: ec2.Subnet, table: ec2.RouteTable) -> None:
        ec2.RouteTableAssociation(
            name, subnet_id=subnet.id, route_table_id=table.id, opts=self._own
        )

    def _route(self, name: str, table: ec2.RouteTable, **by: Any) -> None:
        ec2.Route(
            name,
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            opts=self._own,
            **by,
        )

    def _group(self, name: str, description: str) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            name,
            name=f"burst-{self._args.cluster}-{name}",
            description=description,
            vpc_id=self.vpc_id,
            tags=self._tagged(name),
            opts=self._own,
        )

    def _tagged(self, part: str) -> dict[str, str]:
        return {**self._args.tags, "Name": f"burst {self._args.cluster} {part}"}


def subnet_cidrs(cidr: str, zones: Sequence[str]) -> dict[str, str]:
    """The addresses of each zone's subnet: a sixteenth, by the zone's own letter, so that a zone
    that comes later moves no other.

    Raises:
        ValueError: a zone's name does not end in one of the letters a to o.
    """
    parts = list(ipaddress.ip_network(cidr).subnets(prefixlen_diff=4))
    found = {}
    for zone in zones:
        index = ord(zone[-1]) - ord("a")
        if not 0 <= index < _PUBLIC:
            raise ValueError(f"{zone} is no name of a zone")
        found[zone] = str(parts[index])
    return found
