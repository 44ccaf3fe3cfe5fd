"""Spot prices and placement scores.

moto has one price for all, which is no price, and no scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

from burst.runner.rehearsal.ec2.patched.base import Operations
from burst.runner.rehearsal.ec2.patched.types import price_of, vcpus
from burst.runner.rehearsal.ec2.prices import STEP_S
from burst.runner.rehearsal.ec2.rules import Kind

_PRODUCT = "Linux/UNIX"
_DAY_S = 24 * 3600.0
_PAGE = 1000
_BEST = 9


class SpotMarket(Operations):
    def describe_spot_price_history(self) -> Any:
        """Newest first, in pages; what held when the window began is part of it."""
        products = self._get_param("ProductDescriptions", [])
        found = list(self._prices()) if not products or _PRODUCT in products else []
        first = int(self._get_param("NextToken") or 0)
        last = first + int(self._get_param("MaxResults") or _PAGE)
        token = str(last) if last < len(found) else ""
        return ActionResult({"SpotPriceHistory": found[first:last], "NextToken": token})

    def _prices(self) -> Iterator[dict[str, Any]]:
        now = self.cloud.clock.now()
        start, end = self._date("StartTime", now - _DAY_S), self._date("EndTime", now)
        steps = range(int(min(end, now) // STEP_S), int(start // STEP_S) - 1, -1)
        for step in steps:
            for kind in self._wanted():
                at = step * STEP_S
                price = price_of(kind, self.region, self.cloud.prices, at)
                yield {
                    "AvailabilityZone": kind.zone,
                    "InstanceType": kind.type,
                    "ProductDescription": _PRODUCT,
                    "SpotPrice": f"{price:.6f}",
                    "Timestamp": datetime.fromtimestamp(at, UTC),
                }

    def _wanted(self) -> Iterator[Kind]:
        filters = self._filters_from_querystring()
        types = self._get_param("InstanceTypes", []) or filters.get("instance-type", [])
        zone = self._get_param("AvailabilityZone")
        zones = [zone] if zone else filters.get("availability-zone", [])
        for each in INSTANCE_TYPE_OFFERINGS["availability-zone"].get(self.region, ()):
            name, place = each["InstanceType"], each["Location"]
            if (not types or name in types) and (not zones or place in zones):
                yield Kind(name, place, "spot")

    def _date(self, name: str, default: float) -> float:
        found = self._get_param(name)
        if found is None:
            return default
        if isinstance(found, datetime):
            return found.timestamp()
        return datetime.fromisoformat(str(found).replace("Z", "+00:00")).timestamp()

    def get_spot_placement_scores(self) -> Any:
        """From 1 to 10 how likely it is to get all of them, in each zone or in the region."""
        types, count = self._get_param("InstanceTypes", []), int(self._get_param("TargetCapacity"))
        zones = {
            each.name: each.zone_id for each in self.ec2_backend.describe_availability_zones()
        }
        supply = self.cloud.supply(vcpus())
        scores = {
            zone: max(
                (_score(supply.free(Kind(name, zone, "spot")), count) for name in types), default=1
            )
            for zone in zones
        }
        if str(self._get_param("SingleAvailabilityZone")).lower() != "true":
            best = max(scores.values(), default=1)
            return ActionResult({"SpotPlacementScores": [{"Region": self.region, "Score": best}]})
        found = [
            {"Region": self.region, "AvailabilityZoneId": zones[zone], "Score": score}
            for zone, score in sorted(scores.items(), key=lambda item: -item[1])
        ]
        return ActionResult({"SpotPlacementScores": found})


def _score(free: int | None, count: int) -> int:
    if free is None:
        return _BEST
    return max(1, min(_BEST, _BEST * free // max(1, 2 * count)))
