"""Which offers are asked for, in which order, and when what rests may be asked for again."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from burst.core.config.cluster import AwsPool
from burst.core.model import Refusal, RefusalKind
from burst.runner.pools.aws.codes import back_off
from burst.runner.pools.aws.offers import (
    ON_DEMAND,
    SPOT,
    Offer,
    began,
    closed_until,
    covers,
    on_demand_from,
    rests_until,
    usable,
)

NOW = 1_800_000_000.0
A = Offer(SPOT, "us-east-1a", "p5.48xlarge", "subnet-a", 8, 20.0)
B = Offer(SPOT, "us-east-1b", "p5.48xlarge", "subnet-b", 8, 16.0)
D = Offer(SPOT, "us-east-1b", "p4d.24xlarge", "subnet-b", 8, 8.0)
REGULAR = Offer(ON_DEMAND, "us-east-1a", "p5.48xlarge", "subnet-a", 8, 55.04)
SPOT_ONLY = AwsPool(instance_types=("p5.48xlarge", "p4d.24xlarge"), max_nodes=4)
BOTH = SPOT_ONLY.model_copy(update={"on_demand_after": 600.0})
REGULAR_ONLY = SPOT_ONLY.model_copy(update={"market": "on-demand"})


def refused(
    until: float = NOW + 180, *, at: float = NOW, tries: int = 1, kind: str = "capacity"
) -> Refusal:
    return Refusal(kind=RefusalKind(kind), code="Code", text="no", tries=tries, at=at, until=until)


def test_a_refusal_covers_what_its_key_says() -> None:
    assert covers("spot/us-east-1a/p5.48xlarge", A)
    assert not covers("spot/us-east-1a/p5.48xlarge", B)
    assert not covers("spot/us-east-1a/p5.48xlarge", REGULAR)
    assert covers("spot/*/P5", A)
    assert covers("spot/*/P5", B)
    assert not covers("spot/*/P5", D), "another quota"
    assert not covers("spot/*/P5", REGULAR)
    assert covers("on-demand/*/P", REGULAR)
    assert covers("*/subnet-b/*", B)
    assert covers("*/us-east-1b/*", D)
    assert not covers("*/subnet-b/*", A)
    assert covers("spot/*/*", D)
    assert not covers("spot/*/*", REGULAR)
    assert all(covers(key, each) for key in ("*", "*/*/*") for each in (A, REGULAR))
    assert not covers("something else", A)


def test_the_cheapest_slot_goes_first_and_an_unknown_price_last() -> None:
    unknown = replace(A, zone="us-east-1c", price=None)
    halved = replace(A, zone="us-east-1d", price=12.0, slots=4)
    offers = [unknown, A, halved, B, D]
    assert usable(offers, {}, SPOT_ONLY, NOW) == [D, B, A, halved, unknown]


def test_availability_outweighs_a_small_difference_in_price() -> None:
    scarce, plenty = replace(B, score=2.0), replace(A, score=9.0)
    assert usable([scarce, plenty], {}, SPOT_ONLY, NOW) == [plenty, scarce]


def test_what_was_refused_rests_and_the_others_go_on() -> None:
    refusals = {"spot/us-east-1b/p4d.24xlarge": refused()}
    assert usable([A, B, D], refusals, SPOT_ONLY, NOW) == [B, A]
    assert rests_until(D, refusals, NOW) == NOW + 180
    assert usable([A, B, D], refusals, SPOT_ONLY, NOW + 180) == [D, B, A]


def test_a_quota_of_zero_leaves_its_class_alone_and_takes_another() -> None:
    refusals = {"spot/*/P5": refused(kind="quota")}
    assert usable([A, B, D], refusals, SPOT_ONLY, NOW) == [D]


def test_a_missing_role_closes_all_of_spot() -> None:
    refusals = {"spot/*/*": refused(kind="permission")}
    assert usable([A, B, D], refusals, SPOT_ONLY, NOW) == []
    assert closed_until([A, B, D], refusals, SPOT_ONLY, NOW) == NOW + 180


def test_on_demand_is_never_asked_for_unless_the_file_says_so() -> None:
    refusals = {"spot/*/*": refused(at=NOW - 9000, until=NOW + 1, tries=9)}
    assert usable([A, B, REGULAR], refusals, SPOT_ONLY, NOW) == []
    assert usable([A, B, REGULAR], {}, REGULAR_ONLY, NOW) == [REGULAR]


def test_on_demand_is_asked_for_once_no_spot_offer_gave_a_machine_for_long_enough() -> None:
    refusals = {
        "spot/us-east-1a/p5.48xlarge": refused(at=NOW, until=NOW + 360, tries=2),
        "spot/us-east-1b/p5.48xlarge": refused(at=NOW + 60, until=NOW + 420, tries=2),
    }
    since = on_demand_from([A, B, REGULAR], refusals, BOTH)
    assert since == NOW + 60 - 180 + 600, "the second zone began to refuse 180 s before its date"
    long = {key: each.model_copy(update={"until": NOW + 9000}) for key, each in refusals.items()}
    assert usable([A, B, REGULAR], long, BOTH, since - 1) == []
    assert closed_until([A, B, REGULAR], long, BOTH, NOW + 100) == since
    assert usable([A, B, REGULAR], long, BOTH, since) == [REGULAR]


def test_on_demand_waits_while_there_is_a_spot_offer_that_was_not_refused() -> None:
    refusals = {"spot/us-east-1a/p5.48xlarge": refused(at=NOW - 9000, until=NOW + 9000)}
    assert on_demand_from([A, B, REGULAR], refusals, BOTH) is None
    assert usable([A, B, REGULAR], refusals, BOTH, NOW) == [B]


def test_spot_that_has_opened_again_goes_before_on_demand() -> None:
    refusals = {"spot/*/*": refused(at=NOW - 9000, until=NOW - 1, tries=3)}
    assert usable([A, REGULAR], refusals, BOTH, NOW) == [A]


def test_spot_dearer_than_on_demand_is_not_asked_for() -> None:
    dear = replace(A, price=60.0)
    assert usable([dear, B, REGULAR], {}, BOTH, NOW) == [B]
    assert usable([dear, REGULAR], {}, BOTH, NOW) == [REGULAR]
    resting = {"on-demand/*/P": refused(kind="quota")}
    assert usable([dear, REGULAR], resting, BOTH, NOW) == [dear], "on-demand may not be had"
    assert usable([dear, REGULAR], {}, SPOT_ONLY, NOW) == [dear], "on-demand is not wanted"
    nameless = replace(REGULAR, price=None)
    assert usable([dear, nameless], {}, BOTH, NOW) == [dear], "its price is not known"


def test_a_pool_without_spot_offers_in_its_zones_takes_on_demand_if_it_may() -> None:
    assert usable([REGULAR], {}, BOTH, NOW) == [REGULAR]


def test_nothing_offered_is_not_closed() -> None:
    assert closed_until([], {"*": refused()}, SPOT_ONLY, NOW) is None


def test_a_row_of_refusals_began_at_least_its_rests_ago() -> None:
    assert began(refused(at=NOW)) == NOW
    assert began(refused(at=NOW, tries=3)) == NOW - 180 - 360


OFFERS = st.lists(
    st.builds(
        Offer,
        market=st.sampled_from([SPOT, ON_DEMAND]),
        zone=st.sampled_from(["us-east-1a", "us-east-1b"]),
        type=st.sampled_from(["p5.48xlarge", "p4d.24xlarge", "g5.xlarge"]),
        subnet=st.sampled_from(["subnet-a", "subnet-b"]),
        slots=st.just(8),
        price=st.none() | st.floats(0.1, 100.0),
        score=st.none() | st.floats(1.0, 10.0),
    ),
    max_size=8,
)
KEYS = st.sampled_from(
    [
        "*",
        "spot/*/*",
        "on-demand/*/*",
        "spot/*/P5",
        "spot/*/P4-P3-P2",
        "on-demand/*/P",
        "*/subnet-a/*",
        "spot/us-east-1a/p5.48xlarge",
        "spot/us-east-1b/p4d.24xlarge",
        "on-demand/us-east-1a/p5.48xlarge",
    ]
)


@st.composite
def books(draw: st.DrawFn) -> dict[str, Refusal]:
    found = {}
    for key in draw(st.sets(KEYS, max_size=6)):
        tries = draw(st.integers(1, 6))
        at = NOW - draw(st.floats(0, 4000))
        until = at + back_off(RefusalKind.CAPACITY, tries)
        found[key] = refused(until=until, at=at, tries=tries)
    return found


CONFIGS = st.sampled_from([SPOT_ONLY, BOTH, REGULAR_ONLY])


@given(OFFERS, books(), CONFIGS, st.floats(0, 4000))
def test_only_what_is_open_and_of_one_market_is_ever_asked_for(
    offers: list[Offer], refusals: dict[str, Refusal], config: AwsPool, after: float
) -> None:
    now = NOW + after
    chosen = usable(offers, refusals, config, now)
    assert len({each.market for each in chosen}) <= 1
    for each in chosen:
        assert each in offers
        assert rests_until(each, refusals, now) is None
        if each.market == SPOT:
            assert config.market == SPOT
        elif config.market == SPOT:
            assert config.on_demand_after is not None
    assert chosen == sorted(chosen, key=lambda each: each.rank)


@given(OFFERS, books(), CONFIGS)
def test_a_closed_pool_opens_at_its_date_and_not_before(
    offers: list[Offer], refusals: dict[str, Refusal], config: AwsPool
) -> None:
    until = closed_until(offers, refusals, config, NOW)
    if until is None:
        if any(each.market == config.market for each in offers):
            assert usable(offers, refusals, config, NOW), "it is open, or would never be"
        return
    assert until > NOW
    assert usable(offers, refusals, config, until)
    for date in (NOW, (NOW + until) / 2, until - 0.001):
        assert not usable(offers, refusals, config, date)


@given(OFFERS, books(), CONFIGS)
def test_when_all_rests_are_over_what_the_file_wants_may_be_asked_for(
    offers: list[Offer], refusals: dict[str, Refusal], config: AwsPool
) -> None:
    late = max((each.until for each in refusals.values()), default=NOW) + 1
    wanted = [each for each in offers if each.market == config.market]
    if wanted:
        assert usable(offers, refusals, config, late)
