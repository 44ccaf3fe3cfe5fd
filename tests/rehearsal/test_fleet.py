"""What an instant fleet starts: never more than asked, never what there is not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.runner.rehearsal.ec2.fleet import Offer, Outcome, Wish, allocate, rank
from burst.runner.rehearsal.ec2.rules import CapacityRule, Kind, Quota, Room, Supply, quota_class

A, B = "us-east-1a", "us-east-1b"
TYPES, ZONES = ("p5.48xlarge", "p4d.24xlarge", "g5.xlarge"), (A, B)
STRATEGIES = (
    "lowest-price",
    "diversified",
    "prioritized",
    "capacity-optimized",
    "capacity-optimized-prioritized",
    "price-capacity-optimized",
)


def offer(type: str = TYPES[0], zone: str = A, *, index: int = 0, **more: object) -> Offer:
    plain = Offer(index, Kind(type, zone, "spot"), f"subnet-{zone}", price=1.0)
    return Offer(**{**vars(plain), **more})


def supply(free: Mapping[Kind, int], quotas: tuple[Quota, ...] = ()) -> Supply:
    rules = [CapacityRule(kind, count) for kind, count in free.items()]
    return Supply(rules, quotas, {name: 8 for name in TYPES}, {}, now=100.0)


def started(outcome: Outcome) -> list[tuple[str, str, int]]:
    return [(each.kind.type, each.kind.zone, count) for each, count in outcome.started]


kinds = st.builds(Kind, st.sampled_from(TYPES), st.sampled_from(ZONES), st.just("spot"))


@st.composite
def requests(draw: st.DrawFn) -> tuple[Wish, list[Offer], Supply]:
    free = draw(st.dictionaries(kinds, st.integers(0, 4)))
    there = supply(free)
    chosen = draw(st.lists(kinds, min_size=1, max_size=6, unique=True))
    addresses = {zone: draw(st.none() | st.integers(0, 5)) for zone in ZONES}
    offers = [
        offer(
            kind.type,
            kind.zone,
            index=index,
            price=draw(st.floats(0.1, 9)),
            free=there.free(kind),
            addresses=addresses[kind.zone],
        )
        for index, kind in enumerate(chosen)
    ]
    target = draw(st.integers(1, 8))
    wish = Wish(
        target,
        minimum=draw(st.sampled_from((0, 1, target))),
        single_type=draw(st.booleans()),
        single_zone=draw(st.booleans()),
        strategy=draw(st.sampled_from(STRATEGIES)),
    )
    return wish, offers, there


@given(requests())
def test_a_fleet_never_has_more_than_asked_nor_than_there_is(
    request: tuple[Wish, list[Offer], Supply],
) -> None:
    wish, offers, there = request
    found = allocate(wish, offers, there.room)
    assert found.count <= wish.target
    by_subnet: dict[str, int] = {}
    for each, count in found.started:
        by_subnet[each.subnet] = by_subnet.get(each.subnet, 0) + count
        assert there.free(each.kind) is None or count <= (there.free(each.kind) or 0)
        assert each.addresses is None or by_subnet[each.subnet] <= each.addresses


@given(requests())
def test_below_its_minimum_a_fleet_starts_nothing(
    request: tuple[Wish, list[Offer], Supply],
) -> None:
    wish, offers, there = request
    found = allocate(wish, offers, there.room)
    assert found.count == 0 or found.count >= wish.minimum


@given(requests())
def test_a_single_type_and_a_single_zone_are_kept(
    request: tuple[Wish, list[Offer], Supply],
) -> None:
    wish, offers, there = request
    found = allocate(wish, offers, there.room).started
    assert not wish.single_type or len({each.kind.type for each, _ in found}) <= 1
    assert not wish.single_zone or len({each.kind.zone for each, _ in found}) <= 1


@given(requests())
def test_whatever_is_missing_was_refused_by_someone(
    request: tuple[Wish, list[Offer], Supply],
) -> None:
    wish, offers, there = request
    found = allocate(wish, offers, there.room)
    assert found.count == wish.target or found.refused
    assert all(each.code and each.message for each in found.refused)


@given(requests())
def test_what_one_group_can_give_whole_is_given(
    request: tuple[Wish, list[Offer], Supply],
) -> None:
    wish, offers, there = request
    alone = Wish(wish.target, wish.target, wish.single_type, wish.single_zone)
    enough = any(
        room.machines is None or room.machines >= wish.target
        for each in offers
        if each.addresses is None or each.addresses >= wish.target
        for room in [there.room(each.kind, {})]
    )
    assert not enough or allocate(alone, offers, there.room).count == wish.target


def test_the_cheapest_goes_first() -> None:
    offers = [offer(zone=A, price=2.0), offer(zone=B, price=1.0, index=1)]
    assert started(allocate(Wish(3), offers, supply({}).room)) == [(TYPES[0], B, 3)]


def test_what_one_offer_lacks_the_next_gives_and_the_lack_is_told() -> None:
    offers = [offer(zone=A), offer(zone=B, index=1)]
    found = allocate(Wish(3), offers, supply({Kind(TYPES[0], A, "spot"): 1}).room)
    assert started(found) == [(TYPES[0], A, 1), (TYPES[0], B, 2)]
    assert [(each.offer.index, each.code) for each in found.refused] == [
        (0, "InsufficientInstanceCapacity")
    ]


def test_a_gang_goes_to_the_zone_that_has_all_of_it() -> None:
    offers = [offer(zone=A, price=1.0), offer(zone=B, price=2.0, index=1)]
    wish = Wish(4, 4, single_type=True, single_zone=True)
    found = allocate(wish, offers, supply({Kind(TYPES[0], A, "spot"): 3}).room)
    assert started(found) == [(TYPES[0], B, 4)]


def test_a_diversified_fleet_is_spread() -> None:
    offers = [offer(zone=A), offer(zone=B, index=1)]
    found = allocate(Wish(4, strategy="diversified"), offers, supply({}).room)
    assert started(found) == [(TYPES[0], A, 2), (TYPES[0], B, 2)]


def test_the_price_capacity_strategy_prefers_what_has_enough_to_what_is_cheap() -> None:
    scarce, ample = offer(price=1.0, free=1), offer(zone=B, price=2.0, index=1, free=None)
    wish = Wish(2, strategy="price-capacity-optimized")
    assert [each.index for each in rank(wish, [scarce, ample])] == [1, 0]


def test_a_highest_price_below_the_market_is_refused() -> None:
    found = allocate(Wish(1), [offer(price=2.0, max_price=1.0)], supply({}).room)
    assert [each.code for each in found.refused] == ["SpotMaxPriceTooLow"]


def test_a_subnet_without_addresses_is_refused() -> None:
    found = allocate(Wish(2), [offer(addresses=1)], supply({}).room)
    assert found.count == 1
    assert [each.code for each in found.refused] == ["InsufficientFreeAddressesInSubnet"]


def test_a_rule_holds_from_its_date_on() -> None:
    kind = Kind(TYPES[0], A, "spot")
    rules = [CapacityRule(kind, 5), CapacityRule(kind, 0, since=200.0)]
    assert Supply(rules, (), {}, {}, now=199.0).free(kind) == 5
    assert Supply(rules, (), {}, {}, now=200.0).free(kind) == 0


def test_a_rule_over_many_kinds_counts_them_together() -> None:
    rules = [CapacityRule(Kind("*", "*", "spot"), 3)]
    used = {Kind(TYPES[0], A, "spot"): 2, Kind(TYPES[1], B, "on-demand"): 9}
    there = Supply(rules, (), {}, used, now=0.0)
    assert there.free(Kind(TYPES[2], B, "spot")) == 1
    assert there.free(Kind(TYPES[2], B, "on-demand")) is None


def test_a_quota_counts_the_vcpus_of_its_class_alone() -> None:
    there = supply({}, (Quota("spot", "P5", 20),))
    assert there.room(Kind("p5.48xlarge", A, "spot"), {}).machines == 2
    taken = {Kind("p5.48xlarge", B, "spot"): 1}
    assert there.room(Kind("p5.48xlarge", A, "spot"), taken) == Room(
        1, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"
    )
    assert there.room(Kind("p4d.24xlarge", A, "spot"), {}).machines is None


@pytest.mark.parametrize(
    ("type", "market", "kind"),
    [
        ("p5.48xlarge", "spot", "P5"),
        ("p5e.48xlarge", "spot", "P5"),
        ("p4d.24xlarge", "spot", "P4, P3 and P2"),
        ("p4d.24xlarge", "on-demand", "P"),
        ("g5.xlarge", "spot", "G and VT"),
        ("trn1.32xlarge", "spot", "trn"),
        ("c5.large", "on-demand", "Standard"),
    ],
)
def test_types_share_a_quota_by_their_class(type: str, market: str, kind: str) -> None:
    assert quota_class(type, market) == kind
