"""What moto's tables say of instance types: sizes, zones, prices."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from burst.core.aws.instance_types import on_demand_price
from burst.runner.rehearsal.ec2 import prices
from burst.runner.rehearsal.ec2.rules import Kind


def facts_of(name: str) -> Mapping[str, Any]:
    """As DescribeInstanceTypes has it; empty for a type that there is not."""
    found: Mapping[str, Any] = INSTANCE_TYPES.get(name, {})
    return found


@cache
def vcpus() -> Mapping[str, int]:
    return {name: facts["VCpuInfo"]["DefaultVCpus"] for name, facts in INSTANCE_TYPES.items()}


@cache
def zones_of(name: str, region: str) -> frozenset[str]:
    """The zones of a region that have the type at all."""
    offerings = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, ())
    return frozenset(each["Location"] for each in offerings if each["InstanceType"] == name)


def price_of(kind: Kind, region: str, set_prices: Mapping[Kind, float], at: float) -> float:
    """US dollars an hour of a machine of that kind launched at a date."""
    found = prices.set_price(set_prices, kind)
    if found is not None:
        return found
    full = on_demand_price(kind.type, region) or prices.on_demand_price(facts_of(kind.type))
    if kind.market == "spot":
        return prices.spot_price(full, kind.type, kind.zone, at)
    return full
