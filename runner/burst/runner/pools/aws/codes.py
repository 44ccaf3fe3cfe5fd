"""What EC2's error codes mean: which of them is a lack of machines, and which a person's to mend.

Only what is in the table means what it says there. A code that it lacks is a defect, whatever it
sounds like: a wrong instance profile, taken for a lack of capacity, would be tried for ever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from burst.core.model import Refusal, RefusalKind

_KINDS: Mapping[str, RefusalKind] = {
    "InsufficientInstanceCapacity": RefusalKind.CAPACITY,
    "UnfulfillableCapacity": RefusalKind.CAPACITY,
    "InsufficientCapacity": RefusalKind.CAPACITY,
    "SpotMaxPriceTooLow": RefusalKind.CAPACITY,
    "Unsupported": RefusalKind.CAPACITY,
    "ReservationCapacityExceeded": RefusalKind.CAPACITY,
    # A zone that has not the type on that market, whatever its offerings say.
    "InvalidFleetConfiguration": RefusalKind.CAPACITY,
    "MaxSpotInstanceCountExceeded": RefusalKind.QUOTA,
    "VcpuLimitExceeded": RefusalKind.QUOTA,
    "MaxFleetCountExceeded": RefusalKind.QUOTA,
    "InsufficientFreeAddressesInSubnet": RefusalKind.NETWORK,
    "UnauthorizedOperation": RefusalKind.PERMISSION,
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": RefusalKind.PERMISSION,
    "RequestLimitExceeded": RefusalKind.THROTTLE,
    # Of machines that were there, in the StateReason of their end.
    "Server.InsufficientInstanceCapacity": RefusalKind.CAPACITY,
    "Server.InternalError": RefusalKind.CAPACITY,
    "Server.SpotInstanceShutdown": RefusalKind.CAPACITY,
    "Server.SpotInstanceTermination": RefusalKind.CAPACITY,
}
NO_SPOT_ROLE = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
NO_MORE_FLEETS = "MaxFleetCountExceeded"
_LONGEST_S = 1800.0
_FIRST_S: Mapping[RefusalKind, float] = {
    RefusalKind.CAPACITY: 180.0,
    RefusalKind.QUOTA: 180.0,
    RefusalKind.NETWORK: 180.0,
    RefusalKind.PERMISSION: 60.0,
    RefusalKind.THROTTLE: 5.0,
    RefusalKind.BUG: 60.0,
}


def kind_of(code: str) -> RefusalKind:
    """The class of one of EC2's codes."""
    return _KINDS.get(code, RefusalKind.BUG)


def back_off(kind: RefusalKind, tries: int = 1) -> float:
    """Seconds for which an offer rests after so many refusals in a row."""
    return min(_FIRST_S[kind] * 2.0 ** min(tries - 1, 30), _LONGEST_S)


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


@dataclass(frozen=True)
class Place:
    """What a request was for, where EC2 says that it failed; empty where it does not say."""

    market: str
    zone: str = ""
    subnet: str = ""
    type: str = ""


def refusal(place: Place, code: str, message: str, now: float) -> tuple[str, Refusal]:
    """The offers that rest because of an error, as a key, and for how long.

    A key is `market/zone/type`; any part may be `*`, the zone may be a subnet and the type a
    quota's short name. `*` alone is all that the pool has.
    """
    kind = kind_of(code)
    made = Refusal(
        kind=kind,
        code=code,
        text=_text(place, code, message),
        at=now,
        until=now + back_off(kind),
    )
    return _key(place, code, kind), made


def _key(place: Place, code: str, kind: RefusalKind) -> str:
    if code == NO_SPOT_ROLE:
        return "spot/*/*"
    match kind:
        case RefusalKind.CAPACITY:
            return f"{place.market}/{place.zone or '*'}/{place.type or '*'}"
        case RefusalKind.QUOTA:
            short = quota_of(place.market, place.type).short if place.type else "*"
            return f"{place.market}/*/{short}"
        case RefusalKind.NETWORK:
            return f"*/{place.subnet or place.zone or '*'}/*"
        case _:
            return "*"


def _text(place: Place, code: str, message: str) -> str:
    advice = _advice(place, code)
    said = message.strip().rstrip(".") or code
    return f"{said}. {advice}" if advice else said


def _advice(place: Place, code: str) -> str:
    if code == NO_SPOT_ROLE:
        return (
            "The account lacks the role for spot instances; make it once with `aws iam "
            "create-service-linked-role --aws-service-name spot.amazonaws.com` "
            "(AWSServiceRoleForEC2Spot)"
        )
    if code == NO_MORE_FLEETS:
        return "Raise EC2's quota of fleets in the Service Quotas console, or delete old fleets"
    match kind_of(code):
        case RefusalKind.QUOTA:
            quota = quota_of(place.market, place.type) if place.type else "the quota of vCPUs"
            return f"Raise {quota} in the Service Quotas console of the region"
        case RefusalKind.NETWORK:
            return "The subnet has no free address; add a subnet in that zone or make it larger"
        case RefusalKind.PERMISSION:
            return (
                "Whoever runs the runner may not do this; `aws sts get-caller-identity` says who "
                "that is"
            )
        case _:
            return ""
