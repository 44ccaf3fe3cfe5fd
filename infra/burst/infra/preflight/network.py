"""Whether the network that is wanted has room, and the account room for it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from burst.core.aws.instance_types import InstanceType
from burst.core.aws.names import CLUSTER, untag
from burst.core.aws.quotas import console_url
from burst.core.aws.templates import efa_interfaces, has_own_template
from burst.core.config.cluster import AwsPool, ClusterConfig
from burst.core.units import counted
from burst.infra.preflight.asking import Asking, Unknown
from burst.infra.preflight.checking import Check, failed, ok, warning
from burst.infra.preflight.gathering import aws_of
from burst.infra.preflight.places import pools_of
from burst.infra.preflight.quotas import look_quota

_VPCS = "L-F678F1CE"
_VPCS_NAME = "VPCs per Region"
_DOCKER = ipaddress.ip_network("172.17.0.0/16")
"""What docker gives to containers on a machine, unless told otherwise."""
_TAKEN = 5
"""Addresses of every subnet that AWS keeps."""
_SHARES = 16


@dataclass(frozen=True)
class Vpcs:
    """The VPCs of the region."""

    count: int
    ours: bool
    """Whether one of them is the cluster's."""
    quota: float | Unknown


def look_vpcs(asking: Asking, cluster: str) -> Vpcs | Unknown:
    def question() -> Vpcs:
        pages = asking.client("ec2").get_paginator("describe_vpcs").paginate()
        found = [untag(each.get("Tags")) for page in pages for each in page["Vpcs"]]
        ours = any(tags.get(CLUSTER) == cluster for tags in found)
        return Vpcs(len(found), ours, look_quota(asking, "vpc", _VPCS))

    what = "cannot learn how many VPCs the account has"
    return asking.ask(what, "ec2:DescribeVpcs", question)


def check_network(
    config: ClusterConfig,
    zones: Mapping[str, tuple[str, ...]],
    types: Mapping[str, InstanceType],
    vpcs: Vpcs | Unknown,
) -> Check:
    """
    Args:
        zones: that get a subnet, with the types that they offer.
        types: by name.
    """
    label, aws = "network", aws_of(config)
    if not isinstance(vpcs, Unknown) and _full(vpcs):
        return failed(
            label,
            f"the account has {vpcs.count} VPCs in {aws.region}, which is all that its quota "
            f'"{_VPCS_NAME}" ({_VPCS}) allows',
            f"delete one, or ask for more: {console_url(aws.region, _VPCS, 'vpc')}",
        )
    network = ipaddress.ip_network(aws.cidr)
    room = network.num_addresses // _SHARES - _TAKEN
    found = f"{aws.cidr}, {room:,} addresses in each of {counted(len(zones), 'zone')}"
    if network.overlaps(_DOCKER):
        said = f"{found}; containers have {_DOCKER}, and could not reach what is there"
        return warning(label, said, "choose another aws.cidr, such as 10.86.0.0/16")
    for name, pool in pools_of(config).items():
        needed = pool.max_nodes * _addresses(pool, types)
        if needed > room * len(_zones_of(pool, zones)):
            said = f"{found}; {name} could need {needed:,}"
            return warning(label, said, "choose a larger aws.cidr, or fewer max_nodes")
    if isinstance(vpcs, Unknown):
        return warning(label, found, f"allow {vpcs.action}, and it is seen whether one more "
                       "VPC may be", vpcs.code)  # fmt: skip
    return ok(label, found)


def _full(vpcs: Vpcs) -> bool:
    if vpcs.ours or isinstance(vpcs.quota, Unknown):
        return False
    return vpcs.count >= vpcs.quota


def _zones_of(pool: AwsPool, zones: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [
        zone
        for zone, types in zones.items()
        if (not pool.zones or zone in pool.zones) and set(types) & set(pool.instance_types)
    ]


def _addresses(pool: AwsPool, types: Mapping[str, InstanceType]) -> int:
    """That one node has, of the type that has most."""
    return max(
        sum(card["InterfaceType"] != "efa-only" for card in efa_interfaces(kind, ()))
        if has_own_template(kind, pool.efa)
        else 1
        for kind in (types[name] for name in pool.instance_types)
    )
