"""What has to be known of an account is asked of it, or it is said why it cannot be."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from burst.core.config.cluster import ClusterConfig
from burst.core.errors import BurstError, ConfigError, Refused, Unauthorized, Unreachable
from burst.infra.preflight import gather
from burst.infra.preflight.places import zones_for
from burst.runner.rehearsal.control import Ec2Control
from tests.infra.preflight.clients import ACCOUNT, SPOT, cluster

P5 = "{kind: aws, instance_types: [p5.48xlarge], max_nodes: 2, efa: true}"


def test_the_facts_are_those_of_the_account(environ: Mapping[str, str]) -> None:
    found = gather(cluster(spot=SPOT, big=P5), environ)
    assert (found.account, found.partition) == (ACCOUNT, "aws")
    assert found.region == "us-east-1"
    assert found.root_device == "/dev/sda1"
    assert found.executions > 0
    assert set(found.types) == {"g5.xlarge", "g6.xlarge", "p5.48xlarge"}
    assert found.types["p5.48xlarge"].efa == 32
    assert found.types["g5.xlarge"].vcpus == 4
    assert found.zones["us-east-1a"] == ("g5.xlarge", "g6.xlarge", "p5.48xlarge")
    assert list(found.zones) == sorted(found.zones)


def test_the_same_account_gives_the_same_facts(environ: Mapping[str, str]) -> None:
    config = cluster(spot=SPOT, big=P5)
    assert gather(config, environ) == gather(config, environ)


def test_zones_without_any_of_the_types_are_left_out(environ: Mapping[str, str]) -> None:
    config = cluster(spot="{kind: aws, instance_types: [p6-b200.48xlarge], max_nodes: 1}")
    assert dict(gather(config, environ).zones) == {"us-east-1c": ("p6-b200.48xlarge",)}


def test_a_zone_that_no_pool_wants_is_left_out(environ: Mapping[str, str]) -> None:
    there = "{kind: aws, instance_types: [g5.xlarge], max_nodes: 8, zones: [us-east-1b]}"
    assert dict(gather(cluster(spot=there), environ).zones) == {"us-east-1b": ("g5.xlarge",)}


def test_each_pools_zones_hold_for_its_own_types() -> None:
    config = cluster(
        near="{kind: aws, instance_types: [g5.xlarge], max_nodes: 8, zones: [us-east-1a]}",
        far="{kind: aws, instance_types: [g6.xlarge], max_nodes: 8}",
    )
    both = ("g5.xlarge", "g6.xlarge")
    offered = {"us-east-1a": both, "us-east-1b": both, "us-east-1c": ("g5.xlarge",)}
    pools: Mapping[str, object] = config.pools
    assert zones_for(pools, offered) == {  # type: ignore[arg-type]
        "us-east-1a": both,
        "us-east-1b": ("g6.xlarge",),
    }


@pytest.mark.parametrize(
    ("config", "kind", "said"),
    [
        (cluster(region="us-eats-1"), ConfigError, "did you mean 'us-east-1'"),
        (cluster(region="ap-east-1"), Refused, "has not enabled the region ap-east-1"),
        (cluster(aws="account: '999999999999'"), Refused, "AWS_PROFILE"),
        (
            cluster(spot="{kind: aws, instance_types: [g5.xlagre], max_nodes: 1}"),
            Refused,
            "us-east-1 has no instance type g5.xlagre",
        ),
        (
            cluster(region="eu-west-3", big=P5),
            Refused,
            "no zone of eu-west-3 offers p5.48xlarge",
        ),
        (cluster(aws="image: ami-0123456789abcdef0"), Refused, "InvalidAMIID.NotFound"),
        (cluster(aws="image: resolve:ssm:/no/such"), Refused, "ParameterNotFound"),
        (ClusterConfig(), ConfigError, "aws: {region: us-east-1}"),
    ],
    ids=["region", "not-enabled", "account", "type", "type-elsewhere", "image", "ssm", "no-aws"],
)
def test_what_cannot_be_built_is_refused_in_words(
    environ: Mapping[str, str], config: ClusterConfig, kind: type[BurstError], said: str
) -> None:
    with pytest.raises(kind) as caught:
        gather(config, environ)
    assert type(caught.value) is kind
    assert said in str(caught.value)


def test_a_permission_that_is_missing_is_named_with_awss_code(
    environ: Mapping[str, str], control: Ec2Control
) -> None:
    control.fail("DescribeInstanceTypes", "UnauthorizedOperation")
    with pytest.raises(Refused, match="UnauthorizedOperation"):
        gather(cluster(), environ)


def test_no_credentials_is_told_as_that(
    environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    keyless = {name: value for name, value in environ.items() if "ACCESS_KEY" not in name}
    with pytest.raises(Unauthorized, match="AWS_PROFILE"):
        gather(cluster(), keyless)


def test_where_nobody_answers_nothing_is_made_up(environ: Mapping[str, str]) -> None:
    dead = "http://127.0.0.1:9"
    nowhere = {name: dead if "URL" in name else value for name, value in environ.items()}
    with pytest.raises(Unreachable):
        gather(cluster(), nowhere)
