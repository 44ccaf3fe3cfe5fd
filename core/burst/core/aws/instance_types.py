"""What instance types are: slots, network cards, and what they cost on demand, known offline.

The table beside this file is a guide with a date and a region. Where EC2 was asked, its own answer
(`read_type`) goes before it; prices of other regions differ, so there the table has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class InstanceType:
    name: str
    gpus: int
    """A part of one counts as one."""
    vcpus: int
    efa: int
    """Elastic Fabric Adapters that it can have at most; 0 where it can have none."""
    cards: int
    """Network cards."""
    cluster: bool
    """Whether it can be in a cluster placement group."""

    @property
    def slots(self) -> int:
        """Its GPUs, or its vCPUs where it has none."""
        return self.gpus or self.vcpus

    @property
    def family(self) -> str:
        """`p5` of p5.48xlarge."""
        return self.name.partition(".")[0]


def known_type(name: str) -> InstanceType | None:
    """What the table says of a type; None for one that it lacks."""
    row = _table()["types"].get(name)
    if row is None:
        return None
    return InstanceType(name, row["gpus"], row["vcpus"], row["efa"], row["cards"], row["cluster"])


def known_names() -> tuple[str, ...]:
    """Every type in the table."""
    return tuple(_table()["types"])


def read_type(answer: Mapping[str, Any]) -> InstanceType:
    """One entry of DescribeInstanceTypes."""
    network = answer.get("NetworkInfo", {})
    gpus = answer.get("GpuInfo", {}).get("Gpus", [])
    strategies = answer.get("PlacementGroupInfo", {}).get("SupportedStrategies", [])
    return InstanceType(
        name=answer["InstanceType"],
        gpus=sum(int(gpu.get("LogicalGpuCount") or gpu.get("Count", 0)) for gpu in gpus),
        vcpus=int(answer["VCpuInfo"]["DefaultVCpus"]),
        efa=int(network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)),
        cards=int(network.get("MaximumNetworkCards", 1)),
        cluster="cluster" in strategies,
    )


def on_demand_price(name: str, region: str) -> float | None:
    """US dollars an hour for Linux, as of the table's date; None where it does not know."""
    table = _table()
    if region != table["region"]:
        return None
    price = table["types"].get(name, {}).get("usd")
    return None if price is None else float(price)


def table_date() -> str:
    """When the prices were looked up, as year-month-day."""
    return str(_table()["date"])


@cache
def _table() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(
        files("burst.core.aws").joinpath("instance_types.json").read_bytes()
    )
    return found
