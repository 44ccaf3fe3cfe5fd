"""What a machine costs in the model: plausible, the same in every process, other in every zone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from burst.runner.rehearsal.ec2.rules import ANY, Kind

_ACCELERATOR_HOUR = {
    "B200": 14.2, "H200": 7.9, "H100": 6.9, "A100": 2.75, "V100": 3.06, "L40S": 1.9, "L4": 0.8,
    "A10G": 1.0, "T4": 0.53, "T4g": 0.42, "K80": 0.9, "M60": 0.75,
}  # fmt: skip
"""US dollars for one of them with its share of the machine, on demand, of the order of 2026."""
_VCPU_HOUR = 0.048
_SPOT_SHARE = (0.25, 0.55)
STEP_S = 6 * 3600.0
"""A spot price holds for so long."""


def on_demand_price(facts: Mapping[str, Any]) -> float:
    """US dollars an hour, from what DescribeInstanceTypes says of a type."""
    accelerators = facts.get("GpuInfo", {}).get("Gpus", [])
    if accelerators:
        each = sum(_ACCELERATOR_HOUR.get(gpu["Name"], 1.0) * gpu["Count"] for gpu in accelerators)
        return round(float(each), 4)
    return round(float(facts.get("VCpuInfo", {}).get("DefaultVCpus", 1)) * _VCPU_HOUR, 4)


def spot_price(on_demand: float, instance_type: str, zone: str, at: float) -> float:
    """US dollars an hour at a date: a share of the on-demand price that the type and the zone
    decide, give or take a tenth from one `STEP_S` to the next."""
    low, high = _SPOT_SHARE
    share = low + (high - low) * _draw(instance_type, zone)
    drift = 0.9 + 0.2 * _draw(instance_type, zone, str(int(at // STEP_S)))
    return round(on_demand * share * drift, 4)


def set_price(prices: Mapping[Kind, float], kind: Kind) -> float | None:
    """What somebody has set for `kind`, by the most exact of the names it was set for."""
    found = [(named.count(ANY), price) for named, price in prices.items() if named.matches(kind)]
    return min(found)[1] if found else None


def _draw(*names: str) -> float:
    """In [0, 1), the same for the same names."""
    digest = hashlib.sha256("/".join(names).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
