"""What a network is made of, and in which order it may be taken apart.

moto lets most things go while others need them, so that whoever deletes in the wrong order would
learn of it in a real account only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moto.ec2.responses.elastic_ip_addresses import ElasticIPAddresses
from moto.ec2.responses.internet_gateways import InternetGateways
from moto.ec2.responses.nat_gateways import NatGateways
from moto.ec2.responses.subnets import Subnets
from moto.ec2.responses.vpcs import VPCs

from burst.runner.rehearsal.ec2.patched.base import Operations
from burst.runner.rehearsal.ec2.patched.errors import Problem


class Network(Operations, ElasticIPAddresses, InternetGateways, Subnets, VPCs, NatGateways):
    def create_vpc_endpoint(self) -> Any:
        """moto puts the interfaces of an endpoint into the network's default group."""
        answer: Any = super().create_vpc_endpoint()
        endpoint = answer.result["VpcEndpoint"]
        groups = [
            self.ec2_backend.get_security_group_from_id(id)
            for id in endpoint.security_group_ids or ()
        ]
        for id in endpoint.network_interface_ids or ():
            interface = self.ec2_backend.get_network_interface(id)
            interface.interface_type = "vpc_endpoint"
            interface.description = f"VPC Endpoint Interface {endpoint.id}"
            interface._group_set = groups or interface._group_set
        return answer

    def delete_vpc_endpoints(self) -> Any:
        """moto shows what was deleted for ever."""
        answer = super().delete_vpc_endpoints()
        for id in self._get_param("VpcEndpointIds", []):
            self.ec2_backend.vpc_end_points.pop(id, None)
        return answer

    def delete_nat_gateway(self) -> Any:
        """As in EC2 it is seen for a while, as deleted; its address is free. moto keeps both its
        interface and its hold on the address."""
        id = self._get_param("NatGatewayId")
        if id not in self.ec2_backend.nat_gateways:
            raise Problem("NatGatewayNotFound", f"The Nat Gateway {id} was not found")
        answer = super().delete_nat_gateway()
        interface = self.ec2_backend.nat_gateways[id]._eni
        for address in self.ec2_backend.addresses:
            if address.eni is interface:
                address.eni = address.association_id = None
        self.ec2_backend.enis.pop(interface.id, None)
        return answer

    def release_address(self) -> Any:
        """moto takes it from whatever uses it."""
        id = self._get_param("AllocationId")
        for address in self.ec2_backend.addresses:
            if address.allocation_id == id and address.association_id:
                message = f"Address {address.public_ip} is in use."
                raise Problem("InvalidIPAddress.InUse", message)
        return super().release_address()

    def detach_internet_gateway(self) -> Any:
        vpc = self._get_param("VpcId")
        for address in self.ec2_backend.addresses:
            if address.eni is not None and address.eni.subnet.vpc_id == vpc:
                raise _in_use(
                    f"Network {vpc} has some mapped public address(es). Please unmap those "
                    "public address(es) before detaching the gateway."
                )
        return super().detach_internet_gateway()

    def delete_subnet(self) -> Any:
        id = self._get_param("SubnetId")
        if any(interface.subnet.id == id for interface in self.ec2_backend.enis.values()):
            raise _in_use(f"The subnet '{id}' has dependencies and cannot be deleted.")
        answer = super().delete_subnet()
        for table in self.ec2_backend.route_tables.values():
            for association, subnet in list(table._associations.items()):
                if subnet == id:
                    del table._associations[association]
        return answer

    def delete_vpc(self) -> Any:
        """moto looks at subnets and route tables alone."""
        id = self._get_param("VpcId")
        if any(self._needing(id)):
            raise _in_use(f"The vpc '{id}' has dependencies and cannot be deleted.")
        return super().delete_vpc()

    def _needing(self, vpc: str) -> Iterator[bool]:
        for gateway in self.ec2_backend.internet_gateways.values():
            yield gateway.vpc is not None and gateway.vpc.id == vpc
        for group in self.ec2_backend.groups.get(vpc, {}).values():
            yield group.name != "default"
        for endpoint in self.ec2_backend.vpc_end_points.values():
            yield endpoint.vpc_id == vpc


def _in_use(message: str) -> Problem:
    return Problem("DependencyViolation", message)
