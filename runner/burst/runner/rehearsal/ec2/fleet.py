"""What a fleet of type `instant` starts: one attempt, decided at once, with what was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from burst.runner.rehearsal.ec2.rules import Kind, Room


@dataclass(frozen=True)
class Offer:
    """One override of a fleet's request, or one of the subnets that it may mean."""

    index: int
    """Of the override, in the order of the request."""
    kind: Kind
    subnet: str
    price: float
    """US dollars an hour."""
    max_price: float | None = None
    priority: float = float("inf")
    free: int | None = None
    """Machines that there are before anything is started; None is any number."""
    addresses: int | None = None
    """That the subnet has left; None is any number."""
    trouble: tuple[str, str] | None = None
    """Why it can never be started, as EC2's code and words."""


@dataclass(frozen=True)
class Wish:
    """What is asked for, of one market."""

    target: int
    minimum: int = 0
    single_type: bool = False
    single_zone: bool = False
    strategy: str = "lowest-price"


@dataclass(frozen=True)
class Refused:
    offer: Offer
    code: str
    message: str


@dataclass(frozen=True)
class Outcome:
    started: Sequence[tuple[Offer, int]] = ()
    refused: Sequence[Refused] = ()

    @property
    def count(self) -> int:
        return sum(count for _, count in self.started)


_NO_ADDRESS = (
    "InsufficientFreeAddressesInSubnet",
    "The specified subnet does not have enough free addresses to satisfy the request.",
)
RoomFor = Callable[[Kind, Mapping[Kind, int]], Room]


def allocate(wish: Wish, offers: Sequence[Offer], room: RoomFor) -> Outcome:
    """Which offers give how many machines.

    Of a fleet that must be of one type or in one zone the first group, in the order of the
    strategy, that gives all is taken; otherwise the one that gives most. Below the minimum nothing
    is started.
    """
    best, refused = Outcome(), list[Refused]()
    for group in _groups(wish, rank(wish, offers)):
        found = _fill(wish, group, room)
        refused += found.refused
        if found.count > best.count:
            best = found
        if best.count >= wish.target:
            break
    if best.count < max(wish.minimum, 1):
        return Outcome((), refused)
    return Outcome(best.started, refused)


def rank(wish: Wish, offers: Iterable[Offer]) -> list[Offer]:
    """The order in which the strategy would take them; ties in the order of the request."""

    def scarcity(offer: Offer) -> float:
        return 0.0 if offer.free is None else 1.0 / (1 + offer.free)

    keys: dict[str, Callable[[Offer], tuple[float, ...]]] = {
        "lowest-price": lambda offer: (offer.price,),
        "diversified": lambda offer: (offer.price,),
        "prioritized": lambda offer: (offer.priority,),
        "capacity-optimized": lambda offer: (scarcity(offer),),
        "capacity-optimized-prioritized": lambda offer: (offer.priority, scarcity(offer)),
        "price-capacity-optimized": lambda offer: (
            offer.free is not None and offer.free < wish.target,
            offer.price,
        ),
    }
    return sorted(offers, key=keys[wish.strategy])


def _groups(wish: Wish, offers: Sequence[Offer]) -> list[list[Offer]]:
    groups: dict[tuple[str, str], list[Offer]] = {}
    for offer in offers:
        key = (
            offer.kind.type if wish.single_type else "",
            offer.kind.zone if wish.single_zone else "",
        )
        groups.setdefault(key, []).append(offer)
    return list(groups.values())


@dataclass
class _Filling:
    room: RoomFor
    taken: dict[Kind, int] = field(default_factory=dict)
    addresses: dict[str, int] = field(default_factory=dict)
    started: dict[int, int] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)

    def take(self, position: int, offer: Offer, wanted: int) -> int:
        """How many of `wanted` the offer gives; a refusal is noted."""
        if offer.trouble is not None:
            self.refused.append(Refused(offer, *offer.trouble))
            return 0
        if offer.max_price is not None and offer.max_price < offer.price:
            self.refused.append(Refused(offer, *_too_cheap(offer)))
            return 0
        room = self.room(offer.kind, self.taken)
        if offer.addresses is not None:
            left = offer.addresses - self.addresses.get(offer.subnet, 0)
            if room.machines is None or left < room.machines:
                room = Room(left, *_NO_ADDRESS)
        given = wanted if room.machines is None else min(wanted, room.machines)
        if given < wanted:
            self.refused.append(Refused(offer, room.code, room.message))
        if given:
            self.addresses[offer.subnet] = self.addresses.get(offer.subnet, 0) + given
            self.taken[offer.kind] = self.taken.get(offer.kind, 0) + given
            self.started[position] = self.started.get(position, 0) + given
        return given


def _fill(wish: Wish, offers: Sequence[Offer], room: RoomFor) -> Outcome:
    filling = _Filling(room)
    left = wish.target
    open_ones = list(enumerate(offers))
    while left and open_ones:
        still = []
        for position, offer in open_ones:
            wanted = 1 if wish.strategy == "diversified" else left
            if not left:
                break
            given = filling.take(position, offer, wanted)
            left -= given
            if given == wanted:
                still.append((position, offer))
        open_ones = still
    started = [(offers[position], count) for position, count in filling.started.items()]
    return Outcome(started, filling.refused)


def _too_cheap(offer: Offer) -> tuple[str, str]:
    return (
        "SpotMaxPriceTooLow",
        f"Your Spot request price of {offer.max_price} is lower than the minimum required Spot "
        f"request fulfillment price of {offer.price}.",
    )
