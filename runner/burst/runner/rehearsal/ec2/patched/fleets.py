"""Fleets of type `instant`.

moto's take every machine of the first offer, know of no minimum, no single type or zone, and never
say what was refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from moto.core.responses import ActionResult

from burst.runner.rehearsal.ec2.fleet import Offer, Outcome, Refused, Wish, allocate
from burst.runner.rehearsal.ec2.patched.errors import Problem, unsupported
from burst.runner.rehearsal.ec2.patched.launching import launch
from burst.runner.rehearsal.ec2.patched.offering import Offering
from burst.runner.rehearsal.ec2.spec import Data, Spec, merge, spec_of

_NO_TYPE_HERE = "InvalidFleetConfiguration"
_STRATEGIES = {
    "spot": (
        "lowest-price",
        "diversified",
        "capacity-optimized",
        "capacity-optimized-prioritized",
        "price-capacity-optimized",
    ),
    "on-demand": ("lowest-price", "prioritized"),
}


class Fleets(Offering):
    def create_fleet(self) -> Any:
        if self._get_param("Type") != "instant":
            raise unsupported("fleets of a type other than instant")
        self.error_on_dryrun()
        return self.idempotent("CreateFleet", self._create_fleet)

    def _create_fleet(self) -> Any:
        fleet = f"fleet-{uuid.uuid4()}"
        wishes = [(market, wish) for market, wish in self._wishes() if wish.target]
        choices = self._choices(fleet)
        instances: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        for market, wish in wishes:
            offers = [
                offer
                for index, choice in enumerate(choices)
                for offer in self._offers(index, choice, market)
            ]
            outcome = allocate(wish, offers, self.room())
            instances += self._start(outcome, choices, market)
            errors += [_error(refused, choices, market) for refused in outcome.refused]
        return ActionResult({"FleetId": fleet, "Instances": instances, "Errors": errors})

    def _wishes(self) -> list[tuple[str, Wish]]:
        target = self._get_param("TargetCapacitySpecification", {})
        total = int(target.get("TotalTargetCapacity", 0))
        spot = int(target.get("SpotTargetCapacity", 0))
        demand = int(target.get("OnDemandTargetCapacity", 0))
        rest = max(0, total - spot - demand)
        default = target.get("DefaultTargetCapacityType") or "on-demand"
        if default not in _STRATEGIES:
            raise unsupported(f"capacity of type {default}")
        counts = {"spot": spot, "on-demand": demand}
        counts[default] += rest
        return [
            ("on-demand", self._wish("on-demand", "OnDemandOptions", counts["on-demand"])),
            ("spot", self._wish("spot", "SpotOptions", counts["spot"])),
        ]

    def _wish(self, market: str, name: str, target: int) -> Wish:
        options = self._get_param(name, {})
        wish = Wish(
            target=target,
            minimum=int(options.get("MinTargetCapacity") or 0),
            single_type=bool(options.get("SingleInstanceType")),
            single_zone=bool(options.get("SingleAvailabilityZone")),
            strategy=options.get("AllocationStrategy") or "lowest-price",
        )
        if wish.strategy not in _STRATEGIES[market]:
            message = f"Invalid value '{wish.strategy}' for AllocationStrategy."
            raise Problem("InvalidParameterValue", message)
        if wish.minimum and not (wish.single_type or wish.single_zone):
            raise Problem(
                "InvalidParameterCombination",
                "MinTargetCapacity needs SingleAvailabilityZone or SingleInstanceType.",
            )
        return wish

    def _choices(self, fleet: str) -> list[tuple[Spec, Data, Data]]:
        """Of each override: the machine, the template's decided name, and the override."""
        found = []
        tags = {
            "TagSpecifications": [
                each
                for each in self._get_param("TagSpecifications", [])
                if each.get("ResourceType") != "fleet"
            ]
        }
        for config in self._get_param("LaunchTemplateConfigs", []):
            template, decided = self.template_data(config.get("LaunchTemplateSpecification", {}))
            own = {**template.pop("_tags"), "aws:ec2:fleet-id": fleet}
            for override in config.get("Overrides") or [{}]:
                if float(override.get("WeightedCapacity") or 1) != 1:
                    raise unsupported("weighted capacity")
                if "InstanceRequirements" in override:
                    raise unsupported("instance requirements")
                spec = spec_of(merge(merge(template, override), tags))
                found.append((self.with_tags(spec, own), decided, override))
        return found

    def _offers(self, index: int, choice: tuple[Spec, Data, Data], market: str) -> list[Offer]:
        spec, _, override = choice
        highest = override.get("MaxPrice")
        return self.offers_of(
            index,
            spec,
            market,
            _NO_TYPE_HERE,
            priority=float(override.get("Priority", "inf")),
            max_price=float(highest) if highest and market == "spot" else None,
        )

    def _start(
        self, outcome: Outcome, choices: Sequence[tuple[Spec, Data, Data]], market: str
    ) -> list[dict[str, Any]]:
        answer = []
        for offer, count in outcome.started:
            spec = choices[offer.index][0]
            made = [
                launch(self.cloud, self.ec2_backend, spec, offer.kind, offer.subnet, offer.price)
                for _ in range(count)
            ]
            answer.append(
                {
                    **_chosen(offer, choices, market),
                    "InstanceIds": [each.id for each in made],
                    "InstanceType": offer.kind.type,
                }
            )
        return answer

    def describe_fleet_instances(self) -> Any:
        raise unsupported("DescribeFleetInstances: for instant fleets EC2 has it neither")

    def delete_fleets(self) -> Any:
        raise unsupported("DeleteFleets: an instant fleet is nothing once it has answered")


def _chosen(
    offer: Offer, choices: Sequence[tuple[Spec, Data, Data]], market: str
) -> dict[str, Any]:
    _, decided, override = choices[offer.index]
    shown = {**override, "InstanceType": offer.kind.type, "AvailabilityZone": offer.kind.zone}
    if offer.subnet:
        shown["SubnetId"] = offer.subnet
    return {
        "LaunchTemplateAndOverrides": {
            "LaunchTemplateSpecification": decided,
            "Overrides": shown,
        },
        "Lifecycle": market,
    }


def _error(
    refused: Refused, choices: Sequence[tuple[Spec, Data, Data]], market: str
) -> dict[str, Any]:
    return {
        **_chosen(refused.offer, choices, market),
        "ErrorCode": refused.code,
        "ErrorMessage": refused.message,
    }
