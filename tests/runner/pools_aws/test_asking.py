"""What is asked for: read from EC2 once, ranked, and fixed before anything is launched."""

from __future__ import annotations

from typing import Any

import pytest

from burst.core.clock import ManualClock
from burst.core.errors import Refused, Unreachable
from burst.core.model import Json, Node, Refusal, RefusalKind
from burst.runner.pools.aws.pool import AwsPool
from tests.runner.pools_aws.house import (
    EPOCH,
    Answer,
    ScriptedEc2,
    an_ask,
    lost,
    moment,
    nodes_for,
    pool_of,
    said,
    supply,
)

P5 = ("p5.48xlarge",)
ZONES = ("us-east-1a", "us-east-1b")


def a_type(name: str, *, gpus: int = 8, cluster: bool = True) -> dict[str, Any]:
    return {
        "InstanceType": name,
        "VCpuInfo": {"DefaultVCpus": 192},
        "GpuInfo": {"Gpus": [{"Count": gpus}]},
        "NetworkInfo": {"MaximumNetworkCards": 32, "EfaInfo": {"MaximumEfaInterfaces": 32}},
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster"] if cluster else ["spread"]},
    }


def a_subnet(zone: str, *, public: bool = False, free: int = 100, id: str = "") -> dict[str, Any]:
    return {
        "SubnetId": id or f"subnet-{zone[-1]}",
        "AvailabilityZone": zone,
        "AvailabilityZoneId": f"use1-az-{zone[-1]}",
        "MapPublicIpOnLaunch": public,
        "AvailableIpAddressCount": free,
    }


def region(
    types: tuple[str, ...] = P5,
    *,
    subnets: Any = None,
    prices: Any = None,
    cluster: bool = True,
) -> list[tuple[str, Answer]]:
    """What EC2 says of a region in which every type is in both zones."""
    cost = prices or {(name, zone): 20.0 for name in types for zone in ZONES}
    history = [
        {"InstanceType": n, "AvailabilityZone": z, "SpotPrice": str(usd), "Timestamp": moment(at)}
        for (n, z), usd in cost.items()
        for at in (EPOCH - 60,)
    ]
    offered = [{"InstanceType": n, "Location": z} for n in types for z in ZONES]
    return [
        (
            "describe_instance_types",
            {"InstanceTypes": [a_type(name, cluster=cluster) for name in types]},
        ),
        ("describe_subnets", {"Subnets": subnets or [a_subnet(zone) for zone in ZONES]}),
        ("describe_instance_type_offerings", {"InstanceTypeOfferings": offered}),
        ("describe_spot_price_history", {"SpotPriceHistory": history}),
    ]


def ask(
    pool: AwsPool,
    count: int = 1,
    *,
    whole: bool = False,
    beside: Node | None = None,
    now: float = EPOCH,
    **book: Any,
) -> dict[str, Json]:
    found = pool.ask(count, whole=whole, beside=beside, supply=supply(**book), now=now)
    return dict(found)


def overrides(asked: dict[str, Json]) -> list[dict[str, Json]]:
    return [
        override
        for config in asked["request"]["LaunchTemplateConfigs"]
        for override in config["Overrides"]
    ]


def a_refusal(until: float = EPOCH + 180, *, at: float = EPOCH) -> Refusal:
    return Refusal(
        kind=RefusalKind.CAPACITY,
        code="InsufficientInstanceCapacity",
        text="no",
        at=at,
        until=until,
    )


def test_the_first_ask_reads_each_thing_once_and_the_next_ones_nothing() -> None:
    ec2 = ScriptedEc2(*region())
    pool = pool_of(ec2)
    first = ask(pool, 2)
    assert len(ec2.operations) == 4
    assert ask(pool, 2) == first
    assert len(ec2.operations) == 4
    assert overrides(first) == [
        {"InstanceType": "p5.48xlarge", "SubnetId": "subnet-a"},
        {"InstanceType": "p5.48xlarge", "SubnetId": "subnet-b"},
    ]
    assert first["prices"] == {
        "us-east-1a/p5.48xlarge": 20.0,
        "us-east-1b/p5.48xlarge": 20.0,
    }


def test_an_ask_says_how_far_ec2s_clock_was_ahead() -> None:
    assert ask(pool_of(ScriptedEc2(*region(), date=EPOCH + 250)))["ahead"] == 250.0


def test_prices_are_read_again_after_some_minutes_and_the_rest_after_more() -> None:
    clock = ManualClock(EPOCH)
    ec2 = ScriptedEc2(*region(), region()[3], *region())
    pool = pool_of(ec2, clock)
    ask(pool)
    clock.advance(301)
    ask(pool)
    assert len(ec2.operations) == 5
    clock.advance(601)
    ask(pool)
    assert ec2.script == []


def test_old_prices_and_places_are_better_than_none_while_ec2_does_not_answer() -> None:
    clock = ManualClock(EPOCH)
    silent = [("describe_instance_types", lost())] * 3
    silent += [("describe_spot_price_history", lost())] * 3
    pool = pool_of(ScriptedEc2(*region(), *silent), clock)
    first = ask(pool)
    clock.advance(3600)
    assert ask(pool) == first


def test_the_newest_price_of_a_zone_counts() -> None:
    answers = region()
    history = [
        {
            "InstanceType": "p5.48xlarge",
            "AvailabilityZone": "us-east-1a",
            "SpotPrice": price,
            "Timestamp": moment(EPOCH - ago),
        }
        for price, ago in (("9.5", 600.0), ("12.5", 60.0), ("11.0", 300.0))
    ]
    answers[3] = ("describe_spot_price_history", {"SpotPriceHistory": history})
    assert ask(pool_of(ScriptedEc2(*answers)))["prices"] == {"us-east-1a/p5.48xlarge": 12.5}


def test_the_cheapest_goes_first() -> None:
    prices = {("p5.48xlarge", "us-east-1a"): 30.0, ("p5.48xlarge", "us-east-1b"): 12.0}
    asked = ask(pool_of(ScriptedEc2(*region(prices=prices))))
    assert [each["SubnetId"] for each in overrides(asked)] == ["subnet-b", "subnet-a"]


def test_what_rests_is_left_out_and_where_all_rests_nothing_is_asked() -> None:
    pool = pool_of(ScriptedEc2(*region()))
    book = {"spot/us-east-1a/p5.48xlarge": a_refusal()}
    assert [each["SubnetId"] for each in overrides(ask(pool, refusals=book))] == ["subnet-b"]
    book["*/subnet-b/*"] = a_refusal(EPOCH + 60)
    with pytest.raises(Refused, match="nothing to offer") as caught:
        ask(pool, refusals=book)
    assert "InsufficientInstanceCapacity" in caught.value.why, "the last code is always shown"
    assert pool.closed_until(supply(refusals=book), EPOCH) == EPOCH + 60
    assert pool.closed_until(supply(refusals=book), EPOCH + 60) is None


def test_whether_it_is_closed_is_known_without_asking_where_the_refusals_tell() -> None:
    pool = pool_of(ScriptedEc2())
    assert pool.closed_until(supply(), EPOCH) is None
    assert pool.closed_until(supply(refusals={"spot/*/P5": a_refusal()}), EPOCH) == EPOCH + 180
    one_zone = {"spot/us-east-1a/p5.48xlarge": a_refusal()}
    assert pool.closed_until(supply(refusals=one_zone), EPOCH) is None, "there may be others"
    named = pool_of(ScriptedEc2(), zones=("us-east-1a",))
    assert named.closed_until(supply(refusals=one_zone), EPOCH) == EPOCH + 180


def test_a_gang_is_asked_for_in_the_one_cell_where_it_is_likeliest_to_be_had() -> None:
    scores = [
        {"AvailabilityZoneId": "use1-az-a", "Region": "us-east-1", "Score": 2},
        {"AvailabilityZoneId": "use1-az-b", "Region": "us-east-1", "Score": 9},
    ]
    ec2 = ScriptedEc2(*region(), ("get_spot_placement_scores", {"SpotPlacementScores": scores}))
    pool = pool_of(ec2)
    asked = ask(pool, 4, whole=True)
    assert overrides(asked) == [{"InstanceType": "p5.48xlarge", "SubnetId": "subnet-b"}]
    assert asked["group"] == "own"
    assert asked["request"]["SpotOptions"]["MinTargetCapacity"] == 4
    assert asked["request"]["SpotOptions"]["SingleAvailabilityZone"]
    wanted = ec2.asked[-1][1]
    assert (wanted["TargetCapacity"], wanted["SingleAvailabilityZone"]) == (4, True)
    ask(pool, 4, whole=True)
    assert len(ec2.operations) == 5, "scores are few, and kept"


@pytest.mark.parametrize(
    "answer",
    [said("UnauthorizedOperation"), lost(), said("InvalidAction"), said("RequestLimitExceeded")],
)
def test_without_scores_a_gang_goes_where_it_is_cheapest(answer: Exception) -> None:
    prices = {("p5.48xlarge", "us-east-1a"): 30.0, ("p5.48xlarge", "us-east-1b"): 12.0}
    ec2 = ScriptedEc2(*region(prices=prices), ("get_spot_placement_scores", answer))
    pool = pool_of(ec2)
    for _ in range(2):
        assert [each["SubnetId"] for each in overrides(ask(pool, 2, whole=True))] == ["subnet-b"]
    assert len(ec2.operations) == 5


def test_a_gang_with_one_cell_to_go_to_needs_no_score() -> None:
    ec2 = ScriptedEc2(*region())
    assert len(overrides(ask(pool_of(ec2, zones=("us-east-1b",)), 2, whole=True))) == 1
    assert len(ec2.operations) == 4


def test_a_type_that_cannot_be_in_a_cluster_group_is_in_none() -> None:
    ec2 = ScriptedEc2(*region(cluster=False))
    assert ask(pool_of(ec2, zones=("us-east-1a",)), 2, whole=True)["group"] == ""


def test_a_replacement_in_a_gang_is_beside_the_others() -> None:
    (other,) = nodes_for(
        an_ask(),
        cell="us-east-1b/p5.48xlarge/burst-lab-first",
        handle={"instance": "i-1", "subnet": "subnet-b2"},
    )
    pool = pool_of(ScriptedEc2(*region()))
    asked = ask(pool, beside=other)
    assert overrides(asked) == [
        {
            "InstanceType": "p5.48xlarge",
            "SubnetId": "subnet-b2",
            "Placement": {"GroupName": "burst-lab-first"},
        }
    ]
    book = {"spot/us-east-1b/p5.48xlarge": a_refusal()}
    with pytest.raises(Refused, match="us-east-1b"):
        ask(pool, beside=other, refusals=book)


def test_nothing_is_put_beside_a_node_of_which_it_is_not_known_where_it_is() -> None:
    (claimed,) = nodes_for(an_ask(), handle={"instance": "i-1"})
    with pytest.raises(Unreachable, match=claimed.id):
        ask(pool_of(ScriptedEc2(*region())), beside=claimed)


def test_on_demand_pools_read_no_spot_prices_and_pay_the_tables() -> None:
    ec2 = ScriptedEc2(*region()[:3])
    asked = ask(pool_of(ec2, market="on-demand"))
    assert asked["prices"]["us-east-1a/p5.48xlarge"] == 55.04
    assert "OnDemandOptions" in asked["request"]


@pytest.mark.parametrize("zone", ["us-east-1a", "us-east-1-atl-2a"])
def test_where_no_region_is_named_the_zones_tell_whose_prices_count(zone: str) -> None:
    answers = region(subnets=[a_subnet(zone)])[:3]
    offered = [{"InstanceType": "p5.48xlarge", "Location": zone}]
    answers[2] = ("describe_instance_type_offerings", {"InstanceTypeOfferings": offered})
    ec2 = ScriptedEc2(*answers)
    ec2.region = ""
    assert ask(pool_of(ec2, market="on-demand"))["prices"] == {f"{zone}/p5.48xlarge": 55.04}


def test_on_demand_is_asked_for_after_long_enough_without_spot() -> None:
    book = {"spot/*/P5": a_refusal(EPOCH + 9000, at=EPOCH - 700)}
    pool = pool_of(ScriptedEc2(*region()), on_demand_after="10m")
    asked = ask(pool, refusals=book)
    assert asked["request"]["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == (
        "on-demand"
    )


def test_with_adapters_each_type_has_its_own_template() -> None:
    asked = ask(pool_of(ScriptedEc2(*region()), efa=True))
    (config,) = asked["request"]["LaunchTemplateConfigs"]
    assert config["LaunchTemplateSpecification"]["LaunchTemplateName"] == (
        "burst/lab/spot/p5.48xlarge"
    )


def test_private_subnets_go_before_public_ones_and_roomy_before_full() -> None:
    subnets = [
        a_subnet("us-east-1a", id="subnet-public", public=True, free=250),
        a_subnet("us-east-1a", id="subnet-full", free=3),
        a_subnet("us-east-1a", id="subnet-roomy", free=200),
    ]
    asked = ask(pool_of(ScriptedEc2(*region(subnets=subnets))))
    assert [each["SubnetId"] for each in overrides(asked)] == ["subnet-roomy"]
    only = ask(pool_of(ScriptedEc2(*region(subnets=subnets[:1]))))
    assert [each["SubnetId"] for each in overrides(only)] == ["subnet-public"]


def test_a_cluster_without_subnets_is_told_what_has_to_be_there() -> None:
    answers = region()
    answers[1] = ("describe_subnets", {"Subnets": []})
    with pytest.raises(Refused, match="no subnet") as caught:
        ask(pool_of(ScriptedEc2(*answers)))
    assert "burst up" in caught.value.mend


def test_zones_that_offer_none_of_the_types_are_named_as_the_reason() -> None:
    with pytest.raises(Refused, match=r"p5\.48xlarge"):
        ask(pool_of(ScriptedEc2(*region()), zones=("us-east-1f",)))


def test_ec2_that_does_not_answer_or_refuses_is_said_so() -> None:
    with pytest.raises(Unreachable):
        ask(pool_of(ScriptedEc2(*[("describe_instance_types", lost())] * 3)))
    with pytest.raises(Refused, match="describe_instance_types"):
        ask(pool_of(ScriptedEc2(("describe_instance_types", said("UnauthorizedOperation")))))


def test_what_a_pool_can_give_is_known_offline() -> None:
    limits = pool_of(ScriptedEc2(), instance_types=("p5.48xlarge", "p4d.24xlarge")).limits
    assert (limits.slots_per_node, limits.max_nodes) == (8, 8)
    assert pool_of(ScriptedEc2(), instance_types=("c5.xlarge",)).limits.slots_per_node == 4
    given = pool_of(ScriptedEc2(), instance_types=("z9.huge",), slots_per_node=3)
    assert given.limits.slots_per_node == 3


def test_types_that_differ_in_slots_are_refused_with_each_ones_number() -> None:
    pool = pool_of(ScriptedEc2(), instance_types=("p5.48xlarge", "g5.xlarge"))
    with pytest.raises(Refused, match="differ in slots") as caught:
        _ = pool.limits
    assert "p5.48xlarge has 8" in caught.value.why
    assert "g5.xlarge has 1" in caught.value.why
    set_ = pool_of(ScriptedEc2(), instance_types=("p5.48xlarge", "g5.xlarge"), slots_per_node=1)
    assert set_.limits.slots_per_node == 1


def test_a_type_that_the_table_lacks_is_asked_for_once() -> None:
    ec2 = ScriptedEc2(*region(("z9.huge",))[:3])
    pool = pool_of(ec2, instance_types=("z9.huge",))
    assert pool.limits.slots_per_node == 8
    assert pool.limits.slots_per_node == 8
    assert len(ec2.operations) == 3


def test_a_type_that_nobody_knows_is_refused() -> None:
    ec2 = ScriptedEc2(("describe_instance_types", {"InstanceTypes": []}))
    with pytest.raises(Refused, match=r"z9\.huge"):
        _ = pool_of(ec2, instance_types=("z9.huge",)).limits
