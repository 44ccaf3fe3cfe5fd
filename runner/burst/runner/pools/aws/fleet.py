"""One request for machines: what is asked, what came of it, and which node got which machine.

Pure functions. CreateFleet of type `instant` answers once and is not kept: it may give fewer
machines than asked, and errors beside them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burst.core.aws.names import (
    LAUNCH,
    POOL,
    cell_name,
    placement_group_name,
    tag_list,
    tags_of,
    untag,
)
from burst.core.model import Json, Node, Refusal, RefusalKind
from burst.runner.pools.aws.codes import Place, kind_of, refusal
from burst.runner.pools.aws.offers import SPOT, Offer

OWN_GROUP = "own"
_MOST_OVERRIDES = 60
"""Offers in one request; more make EC2 slower and the choice hardly better."""
_ALIVE_STATES = ("pending", "running", "stopping", "stopped", "shutting-down")


@dataclass(frozen=True)
class Cell:
    """Where machines have to be: beside others of a gang."""

    zone: str
    type: str
    group: str = ""

    @classmethod
    def of(cls, node: Node, cluster: str) -> Cell | None:
        """A node's cell; None where it is not known. A machine may have claimed its node before
        the answer to its request was read, which a gang's request tells as well."""
        parts = node.cell.split("/")
        if len(parts) in (2, 3):
            return cls(*parts)
        offers = list(_overrides(node.ask)) if node.ask else []
        if len(offers) != 1:
            return None
        zone = node.ask["zones"].get(offers[0]["SubnetId"], "")
        group = group_of(node.ask, cluster, node.launch or node.id)
        return cls(zone, offers[0]["InstanceType"], group)

    def has(self, offer: Offer) -> bool:
        return offer.zone == self.zone and offer.type == self.type


@dataclass(frozen=True)
class Instance:
    """A machine as EC2 tells of it."""

    id: str
    type: str
    zone: str
    subnet: str
    market: str
    group: str = ""
    launch: str = ""
    pool: str = ""
    """As its tag says, where EC2 has listed it."""
    state: str = "pending"
    made: float | None = None
    """By EC2's clock; None where its answer does not say."""
    why: str = ""
    """EC2's code for why it ended, and below its words; empty while it lives."""
    why_text: str = ""

    @property
    def alive(self) -> bool:
        """Until EC2 says that it has ended, it is billed, or may be."""
        return self.state in _ALIVE_STATES

    @property
    def handle(self) -> dict[str, Json]:
        """What is the same whoever found it, and how."""
        return {
            "instance": self.id,
            "type": self.type,
            "zone": self.zone,
            "subnet": self.subnet,
            "market": self.market,
        }


def ask_for(
    count: int,
    offers: Sequence[tuple[Offer, str]],
    *,
    whole: bool,
    group: str = "",
    ahead: float = 0.0,
) -> dict[str, Json]:
    """What to write with an intent.

    Args:
        offers: what may be given, each with its launch template, all of one market, best first;
            one only where a placement group is used, which is in one zone and of one type.
        group: the placement group to be in; `own` for a new one of the request.
        ahead: seconds that EC2's clock is before that of whoever writes the intent.
    """
    chosen = offers[:_MOST_OVERRIDES]
    market = chosen[0][0].market
    options: dict[str, Json] = {
        "AllocationStrategy": "price-capacity-optimized" if market == SPOT else "lowest-price"
    }
    if market == SPOT:
        options["InstanceInterruptionBehavior"] = "terminate"
    if whole:
        options |= {
            "MinTargetCapacity": count,
            "SingleInstanceType": True,
            "SingleAvailabilityZone": True,
        }
    templates: dict[str, list[Json]] = {}
    for offer, template in chosen:
        override: dict[str, Json] = {"InstanceType": offer.type, "SubnetId": offer.subnet}
        if group and group != OWN_GROUP:
            override["Placement"] = {"GroupName": group}
        templates.setdefault(template, []).append(override)
    request = {
        "Type": "instant",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"},
                "Overrides": overrides,
            }
            for name, overrides in templates.items()
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": market,
        },
        "SpotOptions" if market == SPOT else "OnDemandOptions": options,
    }
    return {
        "request": request,
        "group": group,
        "ahead": ahead,
        "zones": {offer.subnet: offer.zone for offer, _ in chosen},
        "prices": {offer.cell: offer.price for offer, _ in chosen if offer.price is not None},
    }


def count_of(ask: Mapping[str, Json]) -> int:
    return int(ask["request"]["TargetCapacitySpecification"]["TotalTargetCapacity"])


def market_of(ask: Mapping[str, Json]) -> str:
    return str(ask["request"]["TargetCapacitySpecification"]["DefaultTargetCapacityType"])


def group_of(ask: Mapping[str, Json], cluster: str, launch: str) -> str:
    """The placement group that the request's machines are in; empty if in none."""
    group = str(ask.get("group", ""))
    return placement_group_name(cluster, launch) if group == OWN_GROUP else group


def token_of(launch: str, ask: Mapping[str, Json]) -> str:
    """EC2's ClientToken: the same for the same request, and another for any other."""
    content = json.dumps([launch, ask], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def request_of(ask: Mapping[str, Json], cluster: str, pool: str, launch: str) -> dict[str, Any]:
    """The arguments of CreateFleet."""
    request: dict[str, Any] = json.loads(json.dumps(ask["request"]))
    group = group_of(ask, cluster, launch)
    if group:
        for config in request["LaunchTemplateConfigs"]:
            for override in config["Overrides"]:
                override["Placement"] = {"GroupName": group}
    tags = tag_list(tags_of(cluster, pool, launch))
    request["TagSpecifications"] = [
        {"ResourceType": what, "Tags": tags} for what in ("fleet", "instance", "volume")
    ]
    request["ClientToken"] = token_of(launch, ask)
    return request


def instances_in(answer: Mapping[str, Any], ask: Mapping[str, Json], group: str) -> list[Instance]:
    """The machines that an answer of CreateFleet tells of, whatever else it says."""
    found = []
    for each in answer.get("Instances", ()):
        place = _place(each, ask)
        for id in each.get("InstanceIds", ()):
            found.append(
                Instance(
                    id=id,
                    type=each.get("InstanceType") or place.type,
                    zone=place.zone,
                    subnet=place.subnet,
                    market=place.market,
                    group=group,
                )
            )
    return found


def refusals_in(
    answer: Mapping[str, Any], ask: Mapping[str, Json], now: float
) -> dict[str, Refusal]:
    """What was refused beside them, by offer."""
    found: dict[str, Refusal] = {}
    for each in answer.get("Errors", ()):
        code, message = str(each.get("ErrorCode", "")), str(each.get("ErrorMessage", ""))
        key, made = refusal(_place(each, ask), code, message, now)
        found.setdefault(key, made)
    return found


def all_refused(
    ask: Mapping[str, Json], code: str, message: str, now: float
) -> dict[str, Refusal]:
    """What an error that holds for the whole request says of each of its offers."""
    found: dict[str, Refusal] = {}
    for override in _overrides(ask):
        subnet = override["SubnetId"]
        zone = ask["zones"].get(subnet, "")
        place = Place(market_of(ask), zone, subnet, override["InstanceType"])
        key, made = refusal(place, code, message, now)
        found.setdefault(key, made)
    return found


def _overrides(ask: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    for config in ask["request"]["LaunchTemplateConfigs"]:
        yield from config["Overrides"]


def _place(each: Mapping[str, Any], ask: Mapping[str, Json]) -> Place:
    override = each.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    subnet = override.get("SubnetId") or each.get("SubnetId") or ""
    zone = override.get("AvailabilityZone") or each.get("AvailabilityZone")
    return Place(
        market=each.get("Lifecycle") or market_of(ask),
        zone=zone or ask["zones"].get(subnet, ""),
        subnet=subnet,
        type=override.get("InstanceType") or each.get("InstanceType") or "",
    )


def read_instance(each: Mapping[str, Any]) -> Instance:
    """One instance of DescribeInstances."""
    placement = each.get("Placement", {})
    made, tags = each.get("LaunchTime"), untag(each.get("Tags"))
    return Instance(
        id=each["InstanceId"],
        type=each.get("InstanceType", ""),
        zone=placement.get("AvailabilityZone", ""),
        subnet=each.get("SubnetId", ""),
        market=SPOT if each.get("InstanceLifecycle") == "spot" else "on-demand",
        group=placement.get("GroupName", ""),
        launch=tags.get(LAUNCH, ""),
        pool=tags.get(POOL, ""),
        state=each["State"]["Name"],
        made=made.timestamp() if made is not None else None,
        why=each.get("StateReason", {}).get("Code", ""),
        why_text=each.get("StateReason", {}).get("Message", ""),
    )


def withdrawal(instance: Instance, now: float) -> dict[str, Refusal]:
    """The offer that EC2 took the machine back from, as refused; empty where its end was not
    EC2's doing."""
    if instance.alive or kind_of(instance.why) is not RefusalKind.CAPACITY:
        return {}
    place = Place(instance.market, instance.zone, instance.subnet, instance.type)
    words = instance.why_text.removeprefix(f"{instance.why}: ")
    key, made = refusal(place, instance.why, words, now)
    return {key: made}


def pair(nodes: Iterable[Node], instances: Iterable[Instance], now: float) -> list[Node]:
    """The nodes of a request with their machines; those that get none are not among them.

    Whoever pairs the same machines pairs them alike: both in the order of their ids, those that
    were paired before left out.

    Args:
        nodes: all of the request, those that have a machine already too.
    """
    found = {each.id: each for each in instances}
    named = {node.id: str(node.handle.get("instance", "")) for node in nodes}
    free = sorted(found.keys() - set(named.values()))
    paired = []
    for node in sorted(nodes, key=lambda node: node.id):
        id = named[node.id] or (free.pop(0) if free else "")
        if id in found:
            paired.append(_with(node, found[id], now))
        elif id:
            paired.append(node.model_copy(update={"launched": node.launched or now}))
    return paired


def _with(node: Node, instance: Instance, now: float) -> Node:
    cell = cell_name(instance.zone, instance.type)
    prices = node.ask.get("prices", {})
    return node.model_copy(
        update={
            "launched": node.launched or now,
            "handle": {**instance.handle, **node.handle},
            "cell": cell_name(instance.zone, instance.type, instance.group),
            "price": prices.get(cell),
        }
    )
