"""What a machine is launched with: a launch template's data, and what a request says instead."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Data = Mapping[str, Any]
"""As the API has it, `LaunchTemplateData` or the parameters of RunInstances."""


@dataclass(frozen=True)
class Spec:
    """One kind of machine, all defaults decided but for the subnet."""

    type: str
    image: str
    subnet: str
    """Empty where nothing names one."""
    zone: str
    """Empty where nothing names one."""
    group: str
    groups: Sequence[str]
    """Ids of security groups."""
    interfaces: Sequence[Data]
    user_data: bytes
    profile: Data
    metadata: Data
    stops: bool
    spot: bool
    max_price: float | None
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By type of resource."""
    disks: Sequence[Data] = ()
    key: str = ""


def merge(template: Data, override: Data) -> dict[str, Any]:
    """The template's data with what `override` has instead; placements are merged part by part."""
    placement = {**template.get("Placement", {}), **override.get("Placement", {})}
    if "AvailabilityZone" in override:  # overrides of a fleet have it outside
        placement["AvailabilityZone"] = override["AvailabilityZone"]
    merged = {**template, **override}
    if "SubnetId" in override and "NetworkInterfaces" not in override:
        merged["NetworkInterfaces"] = [
            {**each, "SubnetId": override["SubnetId"]} if "SubnetId" in each else each
            for each in template.get("NetworkInterfaces", ())
        ]
    tags = _tags(template)
    for resource, found in _tags(override).items():
        tags[resource] = {**tags.get(resource, {}), **found}
    return {**merged, "Placement": placement, "TagSpecifications": _as_specifications(tags)}


def spec_of(data: Data) -> Spec:
    """The decided form of merged data."""
    interfaces = tuple(data.get("NetworkInterfaces") or ())
    placement = data.get("Placement", {})
    market = data.get("InstanceMarketOptions") or {}
    price = (market.get("SpotOptions") or {}).get("MaxPrice")
    subnets = [each["SubnetId"] for each in interfaces if each.get("SubnetId")]
    groups = data.get("SecurityGroupIds") or next(
        (each["Groups"] for each in interfaces if each.get("Groups")), ()
    )
    return Spec(
        type=data.get("InstanceType") or "m1.small",
        image=data.get("ImageId") or "",
        subnet=data.get("SubnetId") or (subnets[0] if subnets else ""),
        zone=placement.get("AvailabilityZone") or "",
        group=placement.get("GroupName") or "",
        groups=tuple(groups),
        interfaces=interfaces,
        user_data=base64.b64decode(str(data.get("UserData") or "")),
        profile=data.get("IamInstanceProfile") or {},
        metadata=data.get("MetadataOptions") or {},
        stops=(data.get("InstanceInitiatedShutdownBehavior") or "stop") == "stop",
        spot=market.get("MarketType") == "spot",
        max_price=float(price) if price else None,
        tags=_tags(data),
        disks=tuple(data.get("BlockDeviceMappings") or ()),
        key=data.get("KeyName") or "",
    )


def interface_trouble(spec: Spec, facts: Data) -> tuple[str, str] | None:
    """What is wrong with the network interfaces for that type, as EC2's code and words."""
    network = facts.get("NetworkInfo", {})
    cards = network.get("MaximumNetworkCards", 1)
    efas = [each for each in spec.interfaces if _is_efa(each)]
    most = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    if len(efas) > most:
        return (
            "AttachmentLimitExceeded" if most else "InvalidParameterCombination",
            f"{spec.type} supports {most} EFA interfaces, and {len(efas)} are asked for.",
        )
    for each in spec.interfaces:
        if int(each.get("NetworkCardIndex") or 0) >= cards:
            return (
                "InvalidParameterValue",
                f"Network card index {each['NetworkCardIndex']} is not supported by {spec.type}.",
            )
        if each.get("AssociatePublicIpAddress") and len(spec.interfaces) > 1:
            return (
                "InvalidParameterCombination",
                "The associatePublicIPAddress parameter cannot be specified when launching with "
                "multiple network interfaces.",
            )
        if each.get("InterfaceType") == "efa-only" and _has_address(each):
            return (
                "InvalidParameterValue",
                "Interfaces of type efa-only cannot have IP addresses.",
            )
    return _first_interface(spec)


def _first_interface(spec: Spec) -> tuple[str, str] | None:
    primary = [each for each in spec.interfaces if not int(each.get("DeviceIndex") or 0)]
    if spec.interfaces and not primary:
        return "InvalidParameterCombination", "There is no network interface of device index 0."
    if any(each.get("InterfaceType") == "efa-only" for each in primary):
        return "InvalidParameterValue", "The primary network interface cannot be efa-only."
    return None


def _is_efa(interface: Data) -> bool:
    return interface.get("InterfaceType") in ("efa", "efa-only")


def _has_address(interface: Data) -> bool:
    names = ("AssociatePublicIpAddress", "PrivateIpAddress", "Ipv4PrefixCount", "Ipv6AddressCount")
    return any(interface.get(name) for name in names)


def _tags(data: Data) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for each in data.get("TagSpecifications") or ():
        tags = {tag["Key"]: tag.get("Value", "") for tag in each.get("Tags", ())}
        found.setdefault(each["ResourceType"], {}).update(tags)
    return found


def _as_specifications(tags: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    return [
        {"ResourceType": resource, "Tags": [{"Key": k, "Value": v} for k, v in found.items()]}
        for resource, found in tags.items()
    ]
