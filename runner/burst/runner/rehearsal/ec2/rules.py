"""How many machines the model has to give, and how many one account may have.

Every rule limits the machines that match it, all together; every rule that matches a machine
holds. Of two rules over the same machines the one that began last holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

ANY = "*"


class Kind(NamedTuple):
    """What capacity is counted by."""

    type: str
    zone: str
    market: str

    def matches(self, other: Kind) -> bool:
        """Whether `other` is one of what this names; any of its parts may be `*`."""
        return all(mine in (ANY, theirs) for mine, theirs in zip(self, other, strict=True))


@dataclass(frozen=True)
class CapacityRule:
    kind: Kind
    machines: int | None
    """At once; None is any number."""
    since: float = 0.0
    """Not before this date, in seconds of the epoch."""


@dataclass(frozen=True)
class Quota:
    """What the account may have at once, in vCPUs, of a market and a class of types."""

    market: str
    kind: str
    """`quota_class` of the types that it counts, or `*`."""
    vcpus: int


@dataclass(frozen=True)
class Room:
    """How many more machines of a kind can be had, and what stands in the way of more."""

    machines: int | None
    """None is any number."""
    code: str = ""
    message: str = ""


@dataclass(frozen=True)
class Supply:
    """What there is, what is allowed, and what is in use."""

    capacity: Sequence[CapacityRule]
    quotas: Sequence[Quota]
    vcpus: Mapping[str, int]
    """By type."""
    in_use: Mapping[Kind, int]
    now: float

    def room(self, kind: Kind, taken: Mapping[Kind, int]) -> Room:
        """For more of `kind` when `taken` have been given already."""
        used = dict(self.in_use)
        for other, count in taken.items():
            used[other] = used.get(other, 0) + count
        allowed = self._allowed(kind, used)
        there = self._there(kind, used)
        if there is None or (allowed.machines is not None and allowed.machines <= there):
            return allowed
        return Room(there, *no_capacity(kind))

    def free(self, kind: Kind) -> int | None:
        """Machines that there are, whether or not they may be had; None is any number."""
        return self._there(kind, self.in_use)

    def _there(self, kind: Kind, used: Mapping[Kind, int]) -> int | None:
        newest: dict[Kind, CapacityRule] = {}
        for rule in self.capacity:
            before = newest.get(rule.kind)
            if rule.since <= self.now and (before is None or before.since <= rule.since):
                newest[rule.kind] = rule
        left = [
            rule.machines - sum(n for other, n in used.items() if rule.kind.matches(other))
            for rule in newest.values()
            if rule.machines is not None and rule.kind.matches(kind)
        ]
        return max(0, min(left)) if left else None

    def _allowed(self, kind: Kind, used: Mapping[Kind, int]) -> Room:
        each = self.vcpus.get(kind.type, 1)
        mine = quota_class(kind.type, kind.market)
        found = Room(None)
        for quota in self.quotas:
            if quota.market != kind.market or quota.kind not in (ANY, mine):
                continue
            spent = sum(
                n * self.vcpus.get(other.type, 1)
                for other, n in used.items()
                if other.market == quota.market
                and quota.kind in (ANY, quota_class(other.type, other.market))
            )
            left = max(0, (quota.vcpus - spent) // each)
            if found.machines is None or left < found.machines:
                found = Room(left, *_over_quota(kind.market, quota.vcpus))
        return found


def quota_class(instance_type: str, market: str) -> str:
    """The class of types whose vCPUs one Service Quota of EC2 counts together."""
    family = instance_type.partition(".")[0]
    if market == "spot" and family.startswith(("p2", "p3", "p4")):
        return "P4, P3 and P2"
    if market == "spot" and family.startswith("p5"):
        return "P5"
    for own in ("inf", "trn", "dl", "hpc"):
        if family.startswith(own):
            return own
    if family.startswith(("g", "vt")):
        return "G and VT"
    if family[:1] in ("f", "p", "u", "x"):
        return family[0].upper()
    return "Standard"


def no_capacity(kind: Kind) -> tuple[str, str]:
    """EC2's code and words for it."""
    if kind.market == "spot":
        return (
            "InsufficientInstanceCapacity",
            "There is no Spot capacity available that matches your request.",
        )
    return (
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {kind.type} capacity in the Availability Zone you "
        f"requested ({kind.zone}). Our system will be working on provisioning additional "
        "capacity.",
    )


def _over_quota(market: str, limit: int) -> tuple[str, str]:
    if market == "spot":
        return "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"
    return (
        "VcpuLimitExceeded",
        f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows "
        "for the instance bucket that the specified instance type belongs to. Please visit "
        "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
    )
