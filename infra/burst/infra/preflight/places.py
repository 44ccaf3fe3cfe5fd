"""Where the pools' instance types can be had, and what they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burst.core.aws.instance_types import InstanceType, read_type
from burst.core.config.cluster import AwsPool, ClusterConfig
from burst.infra.preflight.asking import Asking, Unknown

_ZONE = r"{region}[a-o]"
"""Availability zones alone: local zones have other prices, and few of AWS's services."""


@dataclass(frozen=True)
class Kind:
    """An instance type of the region."""

    type: InstanceType
    machines: tuple[str, ...]
    """What its processor runs: x86_64, arm64."""
    markets: tuple[str, ...]
    """`spot`, `on-demand`, `capacity-block`."""


def pools_of(config: ClusterConfig) -> dict[str, AwsPool]:
    """Those of AWS, by name."""
    return {name: pool for name, pool in config.pools.items() if isinstance(pool, AwsPool)}


def types_of(config: ClusterConfig) -> list[str]:
    """Every instance type that a pool names, once."""
    named = [name for pool in pools_of(config).values() for name in pool.instance_types]
    return list(dict.fromkeys(named))


def look_kinds(asking: Asking, names: Sequence[str]) -> Mapping[str, Kind] | Unknown:
    """Those of the types that the region has."""

    def question() -> Mapping[str, Kind]:
        # By filter: asked by name, one that the region lacks would fail the whole request.
        wanted = [{"Name": "instance-type", "Values": list(names)}]
        pages = asking.client("ec2").get_paginator("describe_instance_types")
        found = [each for page in pages.paginate(Filters=wanted) for each in page["InstanceTypes"]]
        return {
            each["InstanceType"]: Kind(
                type=read_type(each),
                machines=tuple(each.get("ProcessorInfo", {}).get("SupportedArchitectures", ())),
                markets=tuple(each.get("SupportedUsageClasses", ())),
            )
            for each in found
        }

    if not names:
        return {}
    what = "cannot learn what the pools' instance types are"
    return asking.ask(what, "ec2:DescribeInstanceTypes", question)


def look_offered(asking: Asking, names: Sequence[str]) -> Mapping[str, tuple[str, ...]] | Unknown:
    """By zone, in the order of their names, which of the types it offers."""

    def question() -> Mapping[str, tuple[str, ...]]:
        pages = asking.client("ec2").get_paginator("describe_instance_type_offerings")
        asked = pages.paginate(
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": list(names)}],
        )
        pairs = [
            (each["Location"], each["InstanceType"])
            for page in asked
            for each in page["InstanceTypeOfferings"]
        ]
        own = re.compile(_ZONE.format(region=re.escape(asking.region)))
        zones = sorted({zone for zone, _ in pairs if own.fullmatch(zone)})
        return {zone: tuple(name for name in names if (zone, name) in pairs) for zone in zones}

    if not names:
        return {}
    what = "cannot learn which zones offer the pools' instance types"
    return asking.ask(what, "ec2:DescribeInstanceTypeOfferings", question)


def zones_for(
    pools: Mapping[str, AwsPool], offered: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """The zones that a cluster has a use for, with the types that a pool would launch there: in
    the zones that it names, or in any."""
    found = {}
    for zone, types in offered.items():
        wanted = {
            name
            for pool in pools.values()
            if not pool.zones or zone in pool.zones
            for name in pool.instance_types
        }
        usable = tuple(name for name in types if name in wanted)
        if usable:
            found[zone] = usable
    return found
