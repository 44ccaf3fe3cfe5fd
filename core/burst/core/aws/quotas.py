"""The service quotas of EC2 that machines count against, and where a person asks for more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Quota:
    """A service quota of EC2 in vCPUs, which many instance families share."""

    short: str
    """As part of an offer's name."""
    name: str
    """As the Service Quotas console has it; empty where it is not known."""
    code: str = ""

    def __str__(self) -> str:
        if not self.name:
            return f"the EC2 service quota of {self.short} instances"
        return f'the EC2 service quota "{self.name}" ({self.code})'


_STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"
_STANDARD_FAMILIES = ("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z")
_FAMILY = re.compile(r"([a-z]+)([0-9]*)")
_OLD_P_SPOT = Quota("P4-P3-P2", "All P4, P3 and P2 Spot Instance Requests", "L-7212CCBC")
_G_SPOT = Quota("G-VT", "All G and VT Spot Instance Requests", "L-3819A6DF")
_G = Quota("G-VT", "Running On-Demand G and VT instances", "L-DB2E81BA")
_SPOT: Mapping[str, Quota] = {
    "p5": Quota("P5", "All P5 Spot Instance Requests", "L-C4BD4855"),
    "p4": _OLD_P_SPOT,
    "p3": _OLD_P_SPOT,
    "p2": _OLD_P_SPOT,
    "g": _G_SPOT,
    "vt": _G_SPOT,
    "f": Quota("F", "All F Spot Instance Requests", "L-88CF9481"),
    "x": Quota("X", "All X Spot Instance Requests", "L-E3A00192"),
    "inf": Quota("Inf", "All Inf Spot Instance Requests", "L-B5D1601B"),
    "trn": Quota("Trn", "All Trn Spot Instance Requests", "L-6B0D517C"),
    "dl": Quota("DL", "All DL Spot Instance Requests", "L-85EED4F7"),
    "": Quota("Standard", f"All {_STANDARD} Spot Instance Requests", "L-34B43A08"),
}
_ON_DEMAND: Mapping[str, Quota] = {
    "p": Quota("P", "Running On-Demand P instances", "L-417A185B"),
    "g": _G,
    "vt": _G,
    "f": Quota("F", "Running On-Demand F instances", "L-74FC7D96"),
    "x": Quota("X", "Running On-Demand X instances", "L-7295265B"),
    "inf": Quota("Inf", "Running On-Demand Inf instances", "L-1945791B"),
    "trn": Quota("Trn", "Running On-Demand Trn instances", "L-2C3B7624"),
    "dl": Quota("DL", "Running On-Demand DL instances", "L-6E869C2A"),
    "hpc": Quota("HPC", "Running On-Demand HPC instances", "L-F7808C92"),
    "": Quota("Standard", f"Running On-Demand {_STANDARD} instances", "L-1216C47A"),
}


def quota_of(market: str, instance_type: str) -> Quota:
    """The quota that instances of a type count against in a market."""
    match = _FAMILY.match(instance_type)
    letters, generation = match.groups() if match else ("", "")
    known = _SPOT if market == "spot" else _ON_DEMAND
    if letters in _STANDARD_FAMILIES:
        return known[""]
    found = known.get(letters + generation) or known.get(letters)
    return found or Quota((letters + generation).upper(), "")


def console_url(region: str, code: str, service: str = "ec2") -> str:
    """Where a person asks for more of a quota."""
    host = f"{region}.console.aws.amazon.com"
    if region.startswith("cn-"):
        host = "console.amazonaws.cn"
    elif region.startswith("us-gov-"):
        host = "console.amazonaws-us-gov.com"
    return f"https://{host}/servicequotas/home/services/{service}/quotas/{code}?region={region}"
