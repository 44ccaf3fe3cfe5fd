"""What EC2's error codes mean: which of them is a lack of machines, and which a person's to mend.

Only what is in the table means what it says there. A code that it lacks is a defect, whatever it
sounds like: a wrong instance profile, taken for a lack of capacity, would be tried for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from burst.core.aws.quotas import quota_of
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
