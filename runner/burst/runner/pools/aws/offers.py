"""Which of a pool's offers may be asked for now, and which of them first: pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from burst.core.aws.names import cell_name
from burst.core.aws.quotas import quota_of
from burst.core.config.cluster import AwsPool
from burst.core.model import Refusal
from burst.runner.pools.aws.codes import back_off

SPOT, ON_DEMAND = "spot", "on-demand"
_USUAL_SCORE = 5.0
"""Of AWS's placement scores from 1 to 10, for an offer that has none."""


@dataclass(frozen=True)
class Offer:
    """One priced way to get a machine."""

    market: str
    zone: str
    type: str
    subnet: str
    slots: int
    price: float | None = None
    """US dollars an hour for the machine; None where it is not known."""
    score: float | None = None
    """How likely a gang is to be had there, from 1 to 10; None where AWS was not asked."""

    @property
    def key(self) -> str:
        return f"{self.market}/{self.zone}/{self.type}"

    @property
    def cell(self) -> str:
        """Without a placement group."""
        return cell_name(self.zone, self.type)

    @property
    def rank(self) -> tuple[bool, float, str]:
        """Lowest first: dollars per slot-hour and point of availability; unknown prices last."""
        score = self.score or _USUAL_SCORE
        per_slot = (self.price or 0.0) / self.slots
        return (self.price is None, per_slot / score, self.key)


def covers(key: str, offer: Offer) -> bool:
    """Whether a refusal's key (`codes.refusal`) is about the offer."""
    if key == "*":
        return True
    parts = key.split("/")
    if len(parts) != 3:
        return False
    market, place, what = parts
    quota = quota_of(offer.market, offer.type).short
    return (
        market in ("*", offer.market)
        and place in ("*", offer.zone, offer.subnet)
        and what in ("*", offer.type, quota)
    )


def rests_until(offer: Offer, refusals: Mapping[str, Refusal], now: float) -> float | None:
    """When the offer may be asked for again; None if that is now."""
    ends = [each.until for key, each in refusals.items() if covers(key, offer)]
    last = max(ends, default=now)
    return last if last > now else None


def usable(
    offers: Sequence[Offer], refusals: Mapping[str, Refusal], config: AwsPool, now: float
) -> list[Offer]:
    """The offers to ask for now, all of one market, best first; empty if all rest.

    Spot goes before on-demand, except where it is dearer. On-demand is asked for by pools of that
    market, and by those of the spot market after `on_demand_after` seconds in which no spot offer
    gave a machine.
    """
    open_ = [offer for offer in offers if rests_until(offer, refusals, now) is None]
    spot = ranked(offer for offer in open_ if offer.market == SPOT)
    regular = ranked(offer for offer in open_ if offer.market == ON_DEMAND)
    if config.market == ON_DEMAND:
        return regular
    if config.on_demand_after is None:
        return spot
    worthy = _not_dearer(spot, regular)
    since = on_demand_from(offers, refusals, config)
    due = since is not None and now >= since
    if worthy or not (spot or due):
        return worthy
    return regular


def closed_until(
    offers: Sequence[Offer], refusals: Mapping[str, Refusal], config: AwsPool, now: float
) -> float | None:
    """When something may be asked for again; None if that is now, or if nothing is offered."""
    if not offers or usable(offers, refusals, config, now):
        return None
    ends = {each.until for each in refusals.values() if each.until > now}
    since = on_demand_from(offers, refusals, config)
    dates = sorted(ends | ({since} if since is not None and since > now else set()))
    return next((date for date in dates if usable(offers, refusals, config, date)), None)


def on_demand_from(
    offers: Iterable[Offer], refusals: Mapping[str, Refusal], config: AwsPool
) -> float | None:
    """From when on a spot pool may ask for on-demand machines: `on_demand_after` seconds after the
    last of its spot offers began to be refused. None while there is one that was not."""
    if config.on_demand_after is None:
        return None
    since = 0.0
    for offer in offers:
        if offer.market == SPOT:
            begins = [began(each) for key, each in refusals.items() if covers(key, offer)]
            if not begins:
                return None
            since = max(since, min(begins))
    return since + config.on_demand_after


def began(refusal: Refusal) -> float:
    """When the row of refusals began, or later: each came no sooner than the last one's rest."""
    return refusal.at - sum(back_off(refusal.kind, tries) for tries in range(1, refusal.tries))


def ranked(offers: Iterable[Offer]) -> list[Offer]:
    return sorted(offers, key=lambda offer: offer.rank)


def _not_dearer(spot: Sequence[Offer], regular: Sequence[Offer]) -> list[Offer]:
    """The spot offers that cost no more than the cheapest on-demand one that may be had."""
    prices = [offer.price / offer.slots for offer in regular if offer.price is not None]
    if not prices:
        return list(spot)
    cheapest = min(prices)
    return [
        offer for offer in spot if offer.price is None or offer.price / offer.slots <= cheapest
    ]
