"""Quotas are compared with what a pool may ask for, by name, code and number of nodes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.config.cluster import AwsPool
from burst.core.errors import Refused
from burst.infra.preflight.asking import Unknown
from burst.infra.preflight.checking import Check, Verdict
from burst.infra.preflight.quotas import check_quota, markets_of, quotas_of
from tests.infra.preflight.clients import cluster

G_SPOT, P5_SPOT, G, STANDARD = "L-3819A6DF", "L-C4BD4855", "L-DB2E81BA", "L-34B43A08"
VCPUS = {
    "g5.xlarge": 4,
    "g6.2xlarge": 8,
    "p5.48xlarge": 192,
    "c7i.large": 2,
    "p6-b200.48xlarge": 8,
}
UNREAD = Unknown(Refused("cannot read it", why="no"), "servicequotas:GetServiceQuota")


def check(quotas: Mapping[str, float | Unknown], *types: str, **fields: object) -> Check:
    named = types or ("g5.xlarge",)
    pool = AwsPool.model_validate({"instance_types": named, "max_nodes": 8, **fields})
    return check_quota("spot", pool, "us-east-1", VCPUS, quotas)


def test_a_quota_that_is_enough_is_told_with_the_nodes_that_it_allows() -> None:
    found = check({G_SPOT: 64.0})
    assert found.verdict is Verdict.OK
    assert found.found == (
        "All G and VT Spot Instance Requests (L-3819A6DF): 64 vCPUs, 16 nodes of g5.xlarge"
    )


def test_a_quota_of_nothing_lets_nothing_be_launched() -> None:
    found = check({P5_SPOT: 0.0}, "p5.48xlarge", max_nodes=4)
    assert found.verdict is Verdict.FAILED
    assert found.found == (
        "All P5 Spot Instance Requests (L-C4BD4855): 0 vCPUs, no p5.48xlarge: "
        "nothing can be launched"
    )
    assert "ask for 768 vCPUs" in found.mend  # 4 × 192
    assert "servicequotas/home/services/ec2/quotas/L-C4BD4855" in found.mend


def test_a_quota_below_one_machine_lets_nothing_be_launched_either() -> None:
    found = check({P5_SPOT: 96.0}, "p5.48xlarge")
    assert found.verdict is Verdict.FAILED
    assert "96 vCPUs, no p5.48xlarge, which has 192" in found.found


def test_a_quota_below_max_nodes_says_how_many_it_allows() -> None:
    found = check({G_SPOT: 10.0})
    assert found.verdict is Verdict.WARNING
    assert "10 vCPUs, 2 nodes of g5.xlarge, of max_nodes 8" in found.found
    assert "ask for 32 vCPUs" in found.mend


def test_the_smallest_type_of_a_quota_counts() -> None:
    assert "4 nodes of g5.xlarge" in check({G_SPOT: 16.0}, "g6.2xlarge", "g5.xlarge").found


def test_types_of_two_quotas_are_added_up() -> None:
    found = check({G_SPOT: 16.0, P5_SPOT: 0.0}, "g5.xlarge", "p5.48xlarge", max_nodes=4)
    assert found.verdict is Verdict.OK
    assert "4 nodes of g5.xlarge" in found.found
    assert "no p5.48xlarge" in found.found


def test_on_demand_counts_where_the_pool_may_come_to_it() -> None:
    spot_alone = check({G_SPOT: 0.0, G: 64.0})
    assert spot_alone.verdict is Verdict.FAILED
    both = check({G_SPOT: 0.0, G: 64.0}, on_demand_after=600)
    assert both.verdict is Verdict.OK
    assert "Running On-Demand G and VT instances (L-DB2E81BA)" in both.found
    bought = check({G: 8.0}, market="on-demand")
    assert "Spot" not in bought.found
    assert "2 nodes" in bought.found


def test_a_quota_whose_code_is_not_known_is_no_refusal() -> None:
    found = check({}, "p6-b200.48xlarge")
    assert found.verdict is Verdict.WARNING
    assert "P6" in found.found


def test_a_quota_that_may_not_be_read_is_told_and_is_no_refusal() -> None:
    alone = check({G_SPOT: UNREAD})
    assert alone.verdict is Verdict.WARNING
    beside = check({G_SPOT: UNREAD, P5_SPOT: 0.0}, "g5.xlarge", "p5.48xlarge")
    assert beside.verdict is Verdict.WARNING
    assert "not known" in beside.found


@given(
    value=st.floats(0, 10_000, allow_nan=False),
    most=st.integers(1, 500),
    type=st.sampled_from(["g5.xlarge", "g6.2xlarge"]),
)
def test_the_verdict_follows_from_the_nodes_that_fit(value: float, most: int, type: str) -> None:
    nodes = int(value // VCPUS[type])
    found = check({G_SPOT: value}, type, max_nodes=most).verdict
    if nodes == 0:
        assert found is Verdict.FAILED
    else:
        assert found is (Verdict.OK if nodes >= most else Verdict.WARNING)


@pytest.mark.parametrize(
    ("settings", "markets"),
    [
        ({}, ["spot"]),
        ({"on_demand_after": 60}, ["spot", "on-demand"]),
        ({"market": "on-demand"}, ["on-demand"]),
    ],
)
def test_a_pool_buys_where_its_settings_say(
    settings: Mapping[str, object], markets: list[str]
) -> None:
    pool = {"instance_types": ("g5.xlarge",), "max_nodes": 1, **settings}
    assert markets_of(AwsPool.model_validate(pool)) == markets


def test_each_quota_of_a_cluster_is_asked_for_once() -> None:
    config = cluster(
        spot="{kind: aws, instance_types: [g5.xlarge, g6.xlarge], max_nodes: 8}",
        more="{kind: aws, instance_types: [g5.12xlarge, c7i.large], max_nodes: 1, "
        "slots_per_node: 1}",
        new="{kind: aws, instance_types: [p6-b200.48xlarge], max_nodes: 1}",
    )
    assert [quota.code for quota in quotas_of(config)] == [G_SPOT, STANDARD]
