"""What a cluster costs idle and by the hour is the sum of its lines, reckoned as they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from burst.core.aws.instance_types import known_type
from burst.core.config.cluster import ClusterConfig
from burst.infra.facts import Facts
from burst.infra.preflight.costs import MEMORY_GIB, Estimate, Line, estimate
from burst.infra.preflight.places import types_of
from burst.infra.preflight.stages import expected, stage_of, stages_of
from burst.infra.settings import Bundle, Settings
from tests.infra.preflight.clients import SPOT, cluster


def settings(config: ClusterConfig, region: str = "us-east-1") -> Settings:
    types = {name: kind for name in types_of(config) if (kind := known_type(name)) is not None}
    facts = Facts("123456789012", region, "aws", {}, types, "/dev/sda1", 1000)
    bundle = Bundle(Path("/nowhere.zip"), "0" * 64, "3.12", "x86_64")
    return Settings(config, "", facts, bundle, bundle)


def of(aws: str = "", **pools: str) -> Estimate:
    return estimate(settings(cluster(aws=aws, **pools)))


def line(found: Estimate, begin: str) -> Line:
    (one,) = [each for each in found.idle if each.what.startswith(begin)]
    return one


def test_a_plain_cluster_pays_for_its_runner_and_for_watching() -> None:
    found = of()
    calls = 43_800  # 60 a minute × 730 hours
    runner = calls / 1e6 * 0.20 + calls * 1.0 * 0.5 * 0.0000166667  # 0.00876 + 0.365
    assert line(found, "runner, called").usd == pytest.approx(runner)
    assert line(found, "table, read").usd == pytest.approx(calls * 12.5 * 0.125 / 1e6)  # 0.068
    assert line(found, "runner's log").usd == pytest.approx(calls * 600 / 1e9 * 0.50)  # 0.013
    assert line(found, "alarms").usd == pytest.approx(4 * 0.10)
    assert line(found, "dashboard").usd == 3.0
    assert found.monthly == pytest.approx(runner + 0.0684375 + 0.01314 + 0.4 + 3.0)
    assert 3.8 < found.monthly < 3.9


def test_the_function_has_the_memory_that_is_reckoned_with() -> None:
    from burst.infra.components.function import MEMORY_MB

    assert MEMORY_MB / 1024 == MEMORY_GIB


def test_a_nat_gateway_is_by_far_the_dearest() -> None:
    more = of("nat: true").monthly - of().monthly
    assert more == pytest.approx(0.05 * 730)  # the gateway 0.045, its address 0.005
    assert "NAT" in line(of("nat: true"), "NAT").what


def test_each_interface_endpoint_is_paid_for_in_one_zone() -> None:
    both = of("endpoints: [images, sessions]")
    assert line(both, "endpoints of ecr.api, ecr.dkr").usd == pytest.approx(2 * 0.01 * 730)
    assert line(both, "endpoints of ssm").usd == pytest.approx(3 * 0.01 * 730)
    assert both.monthly - of().monthly == pytest.approx(36.5)


def test_without_a_function_nothing_is_paid_for_while_nothing_trains() -> None:
    assert of("runner: here").monthly == 0.0


def test_the_total_is_that_of_the_lines() -> None:
    found = of("nat: true; endpoints: [images]")
    assert found.monthly == pytest.approx(sum(each.usd for each in found.idle))
    assert all(each.reckoned for each in found.idle)


def test_a_node_costs_its_type_and_its_disk_by_the_hour() -> None:
    (found,) = of(spot="{kind: aws, instance_types: [g5.xlarge], max_nodes: 8}").nodes
    disk = 200 * 0.08 / 730  # 0.0219
    assert (found.pool, found.type, found.market) == ("spot", "g5.xlarge", "spot")
    assert found.usd == 1.006
    assert found.disk_usd == pytest.approx(disk)
    assert found.most == pytest.approx(8 * (1.006 + disk))


def test_a_price_that_is_not_known_is_not_made_up() -> None:
    (found,) = of(spot="{kind: aws, instance_types: [p6-b300.48xlarge], max_nodes: 1}").nodes
    assert found.usd is None
    assert found.most is None


def test_prices_say_of_when_and_where_they_are() -> None:
    here = " ".join(of().notes)
    assert "us-east-1 as of 2026-04" in here
    assert "2026-06-30" in here
    elsewhere = estimate(settings(cluster(region="eu-west-3"), "eu-west-3"))
    assert "the cluster is in eu-west-3" in " ".join(elsewhere.notes)
    assert elsewhere.nodes[0].usd == of().nodes[0].usd  # a guide, said to be one


# --- stages -------------------------------------------------------------------------------------


def test_stages_are_those_that_the_cluster_file_asks_for() -> None:
    plain = {each.name for each in stages_of(settings(cluster()))}
    assert {"network", "roles", "table", "bucket", "runner"} <= plain
    assert not {"endpoints", "NAT gateway"} & plain
    whole = settings(cluster(aws="nat: true; endpoints: [images]"))
    assert {each.name for each in stages_of(whole)} - plain == {"endpoints", "NAT gateway"}
    here = {each.name for each in stages_of(settings(cluster(aws="runner: here")))}
    assert plain - here == {"runner"}


def test_what_is_expected_is_the_longest_way_and_not_the_sum() -> None:
    plain = settings(cluster(spot=SPOT))
    # roles 10 + table 15 + runner 20; roles 30 + table 60 + runner 60
    assert expected(plain) == (45, 150)
    least, most = expected(settings(cluster(aws="nat: true")))
    assert (least, most) == (15 + 90, 45 + 180)  # network, then the gateway
    assert most < sum(each.most for each in stages_of(plain)) + 180


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("aws:ec2/vpc:Vpc", "network"),
        ("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", "network"),
        ("aws:ec2/vpcEndpoint:VpcEndpoint", "endpoints"),
        ("aws:ec2/natGateway:NatGateway", "NAT gateway"),
        ("aws:ec2/launchTemplate:LaunchTemplate", "launch templates"),
        ("aws:dynamodb/table:Table", "table"),
        ("aws:cloudwatch/eventRule:EventRule", "runner"),
        ("aws:cloudwatch/metricAlarm:MetricAlarm", "alarms and dashboard"),
        ("burst:infra:Network", None),
        ("pulumi:providers:aws", None),
    ],
)
def test_a_resource_belongs_to_the_stage_that_fits_it_closest(kind: str, name: str | None) -> None:
    found = stage_of(kind)
    assert (found.name if found else None) == name
