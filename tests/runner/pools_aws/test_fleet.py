"""Requests for machines and their answers, as values."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from burst.core.aws.names import placement_group_name, untag
from burst.core.model import Node, RefusalKind
from burst.runner.pools.aws.fleet import (
    OWN_GROUP,
    Cell,
    all_refused,
    ask_for,
    instances_in,
    pair,
    read_instance,
    refusals_in,
    request_of,
    token_of,
)
from burst.runner.pools.aws.offers import Offer
from tests.runner.pools_aws.house import (
    CLUSTER,
    EPOCH,
    LAUNCH,
    POOL,
    TEMPLATE,
    A,
    B,
    an_ask,
    an_instance,
    gave,
    ids_of,
    nodes_for,
    refused,
)

REGULAR = Offer("on-demand", "us-east-1a", "p5.48xlarge", "subnet-a", 8, 55.04)


def asked(ask: Any, launch: str = LAUNCH) -> dict[str, Any]:
    return request_of(ask, CLUSTER, POOL, launch)


def test_separate_nodes_may_be_of_any_offer() -> None:
    request = asked(an_ask(3))
    assert request["Type"] == "instant"
    assert request["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 3,
        "DefaultTargetCapacityType": "spot",
    }
    assert request["SpotOptions"] == {
        "AllocationStrategy": "price-capacity-optimized",
        "InstanceInterruptionBehavior": "terminate",
    }
    assert request["LaunchTemplateConfigs"] == [
        {
            "LaunchTemplateSpecification": {
                "LaunchTemplateName": TEMPLATE,
                "Version": "$Latest",
            },
            "Overrides": [
                {"InstanceType": "p5.48xlarge", "SubnetId": "subnet-a"},
                {"InstanceType": "p5.48xlarge", "SubnetId": "subnet-b"},
            ],
        }
    ]


def test_on_demand_machines_are_the_cheapest_ones() -> None:
    request = asked(an_ask(1, REGULAR))
    assert request["OnDemandOptions"] == {"AllocationStrategy": "lowest-price"}
    assert "SpotOptions" not in request
    assert request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "on-demand"


def test_a_gang_is_all_or_none_of_one_type_in_one_zone_and_one_group() -> None:
    request = asked(an_ask(4, A, whole=True, group=OWN_GROUP))
    assert request["SpotOptions"]["MinTargetCapacity"] == 4
    assert request["SpotOptions"]["SingleInstanceType"]
    assert request["SpotOptions"]["SingleAvailabilityZone"]
    (config,) = request["LaunchTemplateConfigs"]
    (override,) = config["Overrides"]
    assert override["Placement"] == {"GroupName": placement_group_name(CLUSTER, LAUNCH)}


def test_types_with_network_cards_of_their_own_are_made_from_their_own_templates() -> None:
    ask = ask_for(2, [(A, "burst/lab/spot/p5.48xlarge"), (B, TEMPLATE)], whole=False)
    names = [
        config["LaunchTemplateSpecification"]["LaunchTemplateName"]
        for config in asked(ask)["LaunchTemplateConfigs"]
    ]
    assert names == ["burst/lab/spot/p5.48xlarge", TEMPLATE]


def test_machines_and_disks_carry_the_request_they_came_of() -> None:
    for each in asked(an_ask())["TagSpecifications"]:
        tags = untag(each["Tags"])
        assert tags["burst:cluster"] == CLUSTER
        assert tags["burst:pool"] == POOL
        assert tags["burst:launch"] == LAUNCH


def test_the_token_is_the_same_for_the_same_request_and_another_for_any_other() -> None:
    ask = an_ask(2)
    stored = json.loads(json.dumps(ask))
    assert token_of(LAUNCH, ask) == token_of(LAUNCH, stored)
    assert asked(ask) == asked(stored)
    tokens = {
        token_of(LAUNCH, ask),
        token_of("launch-1m3k9zq4w7d", ask),
        token_of(LAUNCH, an_ask(3)),
        token_of(LAUNCH, an_ask(2, A)),
        token_of(LAUNCH, an_ask(2, REGULAR)),
        token_of(LAUNCH, an_ask(2, A, whole=True)),
        token_of(LAUNCH, an_ask(2, A, whole=True, group=OWN_GROUP)),
    }
    assert len(tokens) == 7
    assert all(len(token) <= 64 for token in tokens), "EC2 takes no longer ones"


def test_a_request_never_holds_more_offers_than_ec2_takes() -> None:
    many = [
        (Offer("spot", f"zone-{n}", "p5.48xlarge", f"subnet-{n}", 8), TEMPLATE) for n in range(99)
    ]
    (config,) = asked(ask_for(1, many, whole=False))["LaunchTemplateConfigs"]
    assert len(config["Overrides"]) == 60


def test_instances_are_read_although_there_are_errors() -> None:
    answer = {
        "Instances": [gave(B, "i-2", "i-1")],
        "Errors": [refused(A, "InsufficientInstanceCapacity", "There is none.")],
    }
    ask = an_ask(2)
    found = instances_in(answer, ask, "")
    assert [each.id for each in found] == ["i-2", "i-1"]
    assert {(each.zone, each.subnet, each.market) for each in found} == {
        ("us-east-1b", "subnet-b", "spot")
    }
    refusals = refusals_in(answer, ask, EPOCH)
    assert list(refusals) == ["spot/us-east-1a/p5.48xlarge"]
    made = refusals["spot/us-east-1a/p5.48xlarge"]
    assert (made.kind, made.code) == (RefusalKind.CAPACITY, "InsufficientInstanceCapacity")
    assert "There is none" in made.text


def test_an_answer_with_nothing_in_it_gives_nothing() -> None:
    assert instances_in({}, an_ask(), "") == []
    assert refusals_in({}, an_ask(), EPOCH) == {}


def test_an_error_of_the_whole_request_is_one_of_each_of_its_offers() -> None:
    found = all_refused(an_ask(2), "InsufficientInstanceCapacity", "no", EPOCH)
    assert set(found) == {"spot/us-east-1a/p5.48xlarge", "spot/us-east-1b/p5.48xlarge"}
    assert set(all_refused(an_ask(2), "VcpuLimitExceeded", "no", EPOCH)) == {"spot/*/P5"}
    assert set(all_refused(an_ask(2), "InvalidParameterValue", "no", EPOCH)) == {"*"}


def test_a_paired_node_knows_where_it_is_and_what_it_costs() -> None:
    ask = an_ask(1, A, whole=True, group=OWN_GROUP)
    group = placement_group_name(CLUSTER, LAUNCH)
    (node,) = nodes_for(ask)
    found = instances_in({"Instances": [gave(A, "i-1")]}, ask, group)
    (paired,) = pair([node], found, EPOCH + 1)
    assert paired.launched == EPOCH + 1
    assert paired.handle == {
        "instance": "i-1",
        "type": "p5.48xlarge",
        "zone": "us-east-1a",
        "subnet": "subnet-a",
        "market": "spot",
    }
    assert paired.cell == f"us-east-1a/p5.48xlarge/{group}"
    assert paired.price == 20.0
    assert Cell.of(paired, CLUSTER) == Cell("us-east-1a", "p5.48xlarge", group)
    assert Cell.of(node, CLUSTER) == Cell.of(paired, CLUSTER), "a gang's request tells it too"
    assert Cell.of(nodes_for(an_ask())[0], CLUSTER) is None, "it may be in either zone"
    assert Cell.of(nodes_for({})[0], CLUSTER) is None


def test_what_an_answer_and_what_a_listing_say_of_a_machine_is_the_same() -> None:
    (found,) = instances_in({"Instances": [gave(B, "i-1")]}, an_ask(), "")
    assert read_instance(an_instance("i-1", B)).handle == found.handle


def test_a_node_that_its_agent_has_claimed_a_machine_for_keeps_it() -> None:
    first, second, third = sorted(nodes_for(an_ask(3), 3), key=lambda node: node.id)
    claimed = first.model_copy(update={"handle": {"instance": "i-3"}})
    found = [read_instance(an_instance(id)) for id in ("i-1", "i-2", "i-3")]
    paired = pair([third, claimed, second], found, EPOCH)
    assert ids_of(paired) == ["i-3", "i-1", "i-2"]
    assert paired[0].cell == "us-east-1a/p5.48xlarge"
    unseen = pair([claimed], [], EPOCH)
    assert ids_of(unseen) == ["i-3"], "its machine is there although EC2 does not list it yet"


@given(
    st.integers(1, 6),
    st.sets(st.integers(0, 9), max_size=8),
    st.sets(st.integers(0, 5), max_size=3),
    st.randoms(use_true_random=False),
)
def test_whoever_pairs_the_same_machines_pairs_them_alike_and_none_twice(
    count: int, numbers: set[int], claims: set[int], random: Any
) -> None:
    nodes: list[Node] = nodes_for(an_ask(count), count)
    free = sorted(numbers)
    for place in sorted(claims):
        if place < count and free:
            handle = {"instance": f"i-{free.pop()}"}
            nodes[place] = nodes[place].model_copy(update={"handle": handle})
    found = [read_instance(an_instance(f"i-{number}")) for number in numbers]
    paired = pair(nodes, found, EPOCH)
    random.shuffle(nodes)
    random.shuffle(found)
    assert pair(nodes, found, EPOCH) == paired
    assert len(set(ids_of(paired))) == len(paired) == min(count, len(numbers))
    again = {node.id: node for node in nodes} | {node.id: node for node in paired}
    assert pair(again.values(), found, EPOCH + 9) == paired, "and does not change its mind"
