"""What an account can be asked for in a region: types, zones with a subnet, and prices, cached."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from burst.core.aws.instance_types import (
    InstanceType,
    known_type,
    on_demand_price,
    read_type,
)
from burst.core.aws.names import CLUSTER
from burst.core.clock import Clock
from burst.core.config.cluster import AwsPool
from burst.core.errors import Refused, Unreachable
from burst.runner.pools.aws.ec2 import Ec2, Ec2Error
from burst.runner.pools.aws.offers import ON_DEMAND, SPOT, Offer

_PRICES_HOLD_S = 300.0
_PLACES_HOLD_S = 900.0
_SCORES_HOLD_S = 900.0
_PRICE_HISTORY_S = 3600.0
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-[0-9]+")
"""What a zone's name begins with: of us-east-1a, and of us-east-1-atl-2a."""


@dataclass(frozen=True)
class Subnet:
    id: str
    zone: str
    zone_id: str
    """The zone's name that is the same in every account (`use1-az1`)."""


@dataclass(frozen=True)
class Places:
    """Where each type can be had."""

    types: Mapping[str, InstanceType]
    subnets: Sequence[Subnet]
    """One a zone."""
    offered: frozenset[tuple[str, str]]
    """(type, zone)."""


class Catalog:
    """A pool's own view; one request of each kind, and then none until it is old."""

    def __init__(self, pool: str, cluster: str, config: AwsPool, ec2: Ec2, clock: Clock) -> None:
        self._pool = pool
        self._cluster = cluster
        self._config = config
        self._ec2 = ec2
        self._clock = clock
        self._slots = 0
        self._places: tuple[float, Places] | None = None
        self._prices: tuple[float, Mapping[tuple[str, str], float]] | None = None
        self._scores: dict[tuple[int, str], tuple[float, Mapping[str, float]]] = {}

    def slots(self) -> int:
        """Slots of one node, from the file or the shipped table; EC2 is asked only for a type that
        the table lacks.

        Raises:
            Refused: the pool's types differ in slots, or one is unknown to EC2 too.
            Unreachable: EC2 did not answer.
        """
        if not self._slots:
            self._slots = self._config.slots_per_node or self._common_slots()
        return self._slots

    def kind(self, name: str) -> InstanceType:
        """What is known of one of the pool's types."""
        if self._places is not None and name in self._places[1].types:
            return self._places[1].types[name]
        known = known_type(name)
        return known if known is not None else self._read_places().types[name]

    def offers(self) -> tuple[Offer, ...]:
        """All that the pool's settings allow, whatever was refused.

        Raises:
            Refused: nothing of it exists in the region.
            Unreachable: EC2 did not answer.
        """
        slots = self.slots()
        places, prices = self._read_places(), self._read_prices()
        found = _offers(self._config, places, prices, self._region(places), slots)
        if not found:
            self._places = None  # the next time is later, and somebody may have mended it
            raise self._no_machine(places)
        return found

    def cached(self) -> tuple[Offer, ...]:
        """The offers as they were last read, without asking anybody. Before that they are guessed
        from the settings, without prices, and in no zone where the settings name none."""
        if self._places is not None:
            places = self._places[1]
            prices = self._prices[1] if self._prices is not None else {}
            return _offers(self._config, places, prices, self._region(places), self._slots or 1)
        return tuple(
            Offer(market, zone, name, subnet="", slots=1)
            for market in _markets(self._config)
            for zone in self._config.zones or ("",)
            for name in self._config.instance_types
        )

    def scored(self, offers: Sequence[Offer], count: int) -> list[Offer]:
        """Spot offers with AWS's guess of how likely `count` machines of one are to be had in its
        zone, where AWS gives one: one request a type, kept for a while."""
        zone_ids = {each.zone: each.zone_id for each in self._read_places().subnets}
        found = []
        for offer in offers:
            scores = self._read_scores(offer.type, count) if offer.market == SPOT else {}
            found.append(replace(offer, score=scores.get(zone_ids.get(offer.zone, ""))))
        return found

    def _region(self, places: Places) -> str:
        """By its zones where the cluster file does not say."""
        zones = (_REGION.match(each.zone) for each in places.subnets)
        return self._ec2.region or next((found[0] for found in zones if found), "")

    def _no_machine(self, places: Places) -> Refused:
        types, zones = ", ".join(self._config.instance_types), ", ".join(self._config.zones)
        there = ", ".join(each.zone for each in places.subnets)
        why = f"none of the zones that have a subnet of the cluster offers it: {there}"
        if zones:
            why = f"the cluster has subnets in {there}, and what is named there is not to be had"
        return Refused(
            f"pool {self._pool} can have no machine of {types}" + (zones and f" in {zones}"),
            why=why,
            mend="name other types or zones in burst.yaml",
        )

    def _common_slots(self) -> int:
        kinds = [self.kind(name) for name in self._config.instance_types]
        slots = {kind.name: kind.slots for kind in kinds}
        if len(set(slots.values())) > 1:
            raise Refused(
                f"the instance types of pool {self._pool} differ in slots",
                why=", ".join(f"{name} has {number}" for name, number in slots.items()),
                mend="make a pool of each, or set slots_per_node to what all of them have",
            )
        return next(iter(slots.values()))

    def _read_places(self) -> Places:
        held = self._places
        if held is not None and not self._is_old(held[0], _PLACES_HOLD_S):
            return held[1]
        try:
            places = Places(self._read_types(), self._read_subnets(), self._read_offered())
        except Unreachable:
            if held is None:
                raise
            return held[1]  # what was true some minutes ago is better than to launch nothing
        self._places = (self._clock.monotonic(), places)
        return places

    def _read_types(self) -> Mapping[str, InstanceType]:
        names = list(self._config.instance_types)
        found: dict[str, InstanceType] = {}
        # By filter: asked by name, one that the region lacks would fail the whole request.
        for answer in self._pages("describe_instance_types", "instance-type", names):
            for each in answer["InstanceTypes"]:
                kind = read_type(each)
                found[kind.name] = kind
        for name in names:
            known = found.get(name) or known_type(name)
            if known is None:
                raise Refused(
                    f"pool {self._pool} names an instance type that EC2 does not have: {name}",
                    mend="correct instance_types in burst.yaml",
                )
            found[name] = known
        return found

    def _read_subnets(self) -> Sequence[Subnet]:
        answers = self._pages("describe_subnets", f"tag:{CLUSTER}", [self._cluster])
        subnets = [each for answer in answers for each in answer["Subnets"]]
        if not subnets:
            raise Refused(
                f"cluster {self._cluster} has no subnet in region {self._ec2.region or '?'}",
                why=f"none carries the tag {CLUSTER}={self._cluster}",
                mend="`burst up` makes one a zone; or correct `aws.region` in burst.yaml",
            )
        # A machine with several network cards gets no public address, so public subnets are for
        # clusters that have no other.
        private = [each for each in subnets if not each.get("MapPublicIpOnLaunch")] or subnets
        roomy = sorted(
            private,
            key=lambda each: (-int(each.get("AvailableIpAddressCount", 0)), each["SubnetId"]),
        )
        by_zone: dict[str, Subnet] = {}
        for each in roomy:
            zone = each["AvailabilityZone"]
            by_zone.setdefault(
                zone, Subnet(each["SubnetId"], zone, each.get("AvailabilityZoneId", ""))
            )
        return sorted(by_zone.values(), key=lambda each: each.zone)

    def _read_offered(self) -> frozenset[tuple[str, str]]:
        answers = self._pages(
            "describe_instance_type_offerings",
            "instance-type",
            list(self._config.instance_types),
            LocationType="availability-zone",
        )
        return frozenset(
            (each["InstanceType"], each["Location"])
            for answer in answers
            for each in answer["InstanceTypeOfferings"]
        )

    def _read_prices(self) -> Mapping[tuple[str, str], float]:
        if self._config.market != SPOT:
            return {}
        held = self._prices
        if held is not None and not self._is_old(held[0], _PRICES_HOLD_S):
            return held[1]
        try:
            prices = self._spot_prices()
        except Unreachable:
            if held is None:
                raise
            return held[1]
        self._prices = (self._clock.monotonic(), prices)
        return prices

    def _spot_prices(self) -> Mapping[tuple[str, str], float]:
        since = datetime.fromtimestamp(self._clock.now() - _PRICE_HISTORY_S, UTC)
        newest: dict[tuple[str, str], tuple[datetime, float]] = {}
        try:
            for answer in self._ec2.pages(
                "describe_spot_price_history",
                InstanceTypes=list(self._config.instance_types),
                ProductDescriptions=["Linux/UNIX"],
                StartTime=since,
            ):
                for each in answer["SpotPriceHistory"]:
                    place = (each["InstanceType"], each["AvailabilityZone"])
                    said = (each["Timestamp"], float(each["SpotPrice"]))
                    newest[place] = max(newest.get(place, said), said)
        except Ec2Error as error:
            raise error.as_refused() from error
        return {place: price for place, (_, price) in newest.items()}

    def _read_scores(self, name: str, count: int) -> Mapping[str, float]:
        """By zone id; empty where AWS gives none, which is kept as long."""
        held = self._scores.get((count, name))
        if held is not None and not self._is_old(held[0], _SCORES_HOLD_S):
            return held[1]
        answer = self._ec2.guess(
            "get_spot_placement_scores",
            InstanceTypes=[name],
            TargetCapacity=count,
            SingleAvailabilityZone=True,
            RegionNames=[self._region(self._read_places())],
        )
        scores = {
            each.get("AvailabilityZoneId", ""): float(each["Score"])
            for each in (answer or {}).get("SpotPlacementScores", ())
        }
        self._scores[count, name] = (self._clock.monotonic(), scores)
        return scores

    def _pages(
        self, operation: str, name: str, values: list[str], **asked: Any
    ) -> Iterator[Mapping[str, Any]]:
        try:
            yield from self._ec2.pages(
                operation, Filters=[{"Name": name, "Values": values}], **asked
            )
        except Ec2Error as error:
            raise error.as_refused() from error

    def _is_old(self, since: float, holds: float) -> bool:
        return self._clock.monotonic() - since > holds


def _offers(
    config: AwsPool,
    places: Places,
    prices: Mapping[tuple[str, str], float],
    region: str,
    slots: int,
) -> tuple[Offer, ...]:
    found = []
    for subnet in places.subnets:
        if config.zones and subnet.zone not in config.zones:
            continue
        for name in config.instance_types:
            if (name, subnet.zone) not in places.offered:
                continue
            for market in _markets(config):
                price = (
                    prices.get((name, subnet.zone))
                    if market == SPOT
                    else on_demand_price(name, region)
                )
                found.append(Offer(market, subnet.zone, name, subnet.id, slots, price))
    return tuple(found)


def _markets(config: AwsPool) -> tuple[str, ...]:
    if config.market == SPOT and config.on_demand_after is not None:
        return (SPOT, ON_DEMAND)
    return (config.market,)
