"""What can be launched now: zones that have the type, its price, capacity, quotas, addresses.

moto launches whatever it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from moto.core.exceptions import ServiceException
from moto.ssm.models import ssm_backends

from burst.runner.rehearsal.ec2.fleet import Offer, RoomFor
from burst.runner.rehearsal.ec2.patched.base import Operations
from burst.runner.rehearsal.ec2.patched.types import facts_of, price_of, vcpus, zones_of
from burst.runner.rehearsal.ec2.rules import Kind, no_capacity
from burst.runner.rehearsal.ec2.spec import Spec, interface_trouble

_FROM_SSM = "resolve:ssm:"
_Place = tuple[str, str, int | None, tuple[str, str] | None]
"""Zone, subnet, its free addresses, and what is wrong with it."""


class Offering(Operations):
    def room(self) -> RoomFor:
        return self.cloud.supply(vcpus()).room

    def offers_of(
        self,
        index: int,
        spec: Spec,
        market: str,
        not_here: str,
        priority: float = float("inf"),
        max_price: float | None = None,
    ) -> list[Offer]:
        """Where a machine of `spec` could be: in its subnet, or in the default one of its zone, or
        of any zone.

        Args:
            not_here: EC2's code for a type that a zone does not have, which differs by operation.
        """
        supply = self.cloud.supply(vcpus())
        offers = []
        for zone, subnet, addresses, trouble in self._places(spec):
            kind = Kind(spec.type, zone, market)
            price = price_of(
                kind, self.ec2_backend.region_name, self.cloud.prices, self.cloud.clock.now()
            )
            offers.append(
                Offer(
                    index=index,
                    kind=kind,
                    subnet=subnet,
                    price=price,
                    max_price=spec.max_price if max_price is None else max_price,
                    priority=priority,
                    free=supply.free(kind),
                    addresses=addresses,
                    trouble=trouble or self._trouble(spec, kind, not_here),
                )
            )
        return offers

    def _places(self, spec: Spec) -> list[_Place]:
        backend = self.ec2_backend
        if spec.subnet:
            try:
                subnet = backend.get_subnet(spec.subnet)
            except ServiceException as error:
                return [(spec.zone, spec.subnet, None, (error.code, error.message))]
            zone = subnet.availability_zone
            if spec.zone and spec.zone != zone:
                message = "The availability zone does not match the subnet."
                return [(zone, subnet.id, None, ("InvalidParameterValue", message))]
            return [(zone, subnet.id, subnet.available_ip_address_count, None)]
        subnets = backend.get_default_subnets()
        found: list[_Place] = [
            (zone, subnet.id, subnet.available_ip_address_count, None)
            for zone, subnet in sorted(subnets.items())
            if spec.zone in ("", zone)
        ]
        message = f"No default subnet for availability zone: '{spec.zone}'."
        return found or [(spec.zone, "", None, ("InvalidInput", message))]

    def _trouble(self, spec: Spec, kind: Kind, not_here: str) -> tuple[str, str] | None:
        """Why such a machine can never be had."""
        if not facts_of(spec.type):
            message = f"Invalid value '{spec.type}' for InstanceType."
            return "InvalidParameterValue", message
        for refused, code, words in self.cloud.refusals:
            if refused.matches(kind):
                return code, words
        zones = zones_of(spec.type, self.ec2_backend.region_name)
        if kind.zone not in zones:
            return not_here, (
                f"Your requested instance type ({spec.type}) is not supported in your requested "
                f"Availability Zone ({kind.zone}). Please retry your request by not specifying an "
                f"Availability Zone or choosing {', '.join(sorted(zones))}."
            )
        return (
            self._image_trouble(spec)
            or self._group_trouble(spec, kind)
            or interface_trouble(spec, facts_of(spec.type))
        )

    def _image_trouble(self, spec: Spec) -> tuple[str, str] | None:
        image = self.image_of(spec)
        if not image:
            return "MissingParameter", "The request must contain the parameter ImageId"
        try:
            self.ec2_backend.describe_images(ami_ids=[image])
            for group in spec.groups:
                if self.ec2_backend.get_security_group_from_id(group) is None:
                    message = f"The security group '{group}' does not exist"
                    return "InvalidGroup.NotFound", message
        except ServiceException as error:
            return error.code, error.message
        return None

    def _group_trouble(self, spec: Spec, kind: Kind) -> tuple[str, str] | None:
        """A cluster placement group is in one zone: that of its first machine."""
        if not spec.group:
            return None
        if spec.group not in self.cloud.groups:
            message = f"The Placement Group '{spec.group}' is unknown."
            return "InvalidPlacementGroup.Unknown", message
        group = self.cloud.groups[spec.group]
        strategies = (
            facts_of(spec.type).get("PlacementGroupInfo", {}).get("SupportedStrategies", [])
        )
        if group.strategy not in strategies:
            return "InvalidParameterCombination", (
                f"Instances of type '{spec.type}' may not be launched into a "
                f"{group.strategy} placement group."
            )
        inside = [m for m in self.cloud.machines.values() if m.group == spec.group and m.alive]
        if group.strategy == "cluster" and any(m.kind.zone != kind.zone for m in inside):
            return no_capacity(kind)
        return None

    def image_of(self, spec: Spec) -> str:
        """The image's id, read from the parameter where one is named."""
        if not spec.image.startswith(_FROM_SSM):
            return spec.image
        backend = ssm_backends[self.current_account][self.region]
        found = backend.get_parameter(spec.image.removeprefix(_FROM_SSM))
        return spec.image if found is None else str(found.value)

    def with_tags(self, spec: Spec, tags: Mapping[str, str]) -> Spec:
        """The spec with its image decided, and with more tags on its instances."""
        instance = {**spec.tags.get("instance", {}), **tags}
        return replace(spec, image=self.image_of(spec), tags={**spec.tags, "instance": instance})
