"""What all clusters of an account share is made once, whoever begins."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from burst.core.config.cluster import ClusterConfig
from burst.core.errors import ConfigError
from burst.infra.preflight import Verdict, prepare
from burst.infra.preflight.asking import Asking
from burst.infra.preflight.shared import (
    AUDIENCE,
    Provider,
    check_github,
    check_spot_role,
    look_github,
    look_spot_role,
)
from tests.infra.preflight.clients import ACCOUNT, cluster

ARN = f"arn:aws:iam::{ACCOUNT}:oidc-provider/token.actions.githubusercontent.com"
BOUGHT = "{kind: aws, instance_types: [g5.xlarge], max_nodes: 1, market: on-demand}"


def providers(iam: Any) -> list[str]:
    found = iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
    return [each["Arn"] for each in found]


def spot_roles(iam: Any) -> list[str]:
    found = iam.list_roles(PathPrefix="/aws-service-role/spot.amazonaws.com/")["Roles"]
    return [each["RoleName"] for each in found]


def test_what_is_missing_is_made_and_named(environ: Mapping[str, str], iam: Any) -> None:
    made = prepare(cluster(aws="github: [owner/name]"), environ)
    assert len(made) == 2
    assert "AWSServiceRoleForEC2Spot" in made[0]
    assert "GitHub" in made[1]
    assert len(spot_roles(iam)) == 1
    assert providers(iam) == [ARN]
    found = iam.get_open_id_connect_provider(OpenIDConnectProviderArn=ARN)
    assert found["ClientIDList"] == [AUDIENCE]


def test_a_second_call_makes_nothing(environ: Mapping[str, str], iam: Any) -> None:
    config = cluster(aws="github: [owner/name]")
    prepare(config, environ)
    assert prepare(config, environ) == []
    assert providers(iam) == [ARN]


def test_what_the_cluster_has_no_use_for_is_not_made(environ: Mapping[str, str], iam: Any) -> None:
    assert prepare(cluster(spot=BOUGHT), environ) == []
    assert spot_roles(iam) == []
    assert providers(iam) == []


def test_many_at_once_end_with_one_of_each(environ: Mapping[str, str], iam: Any) -> None:
    config = cluster(aws="github: [owner/name]")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: prepare(config, environ), range(4)))
    assert len(spot_roles(iam)) == 1
    assert providers(iam) == [ARN]


def test_checks_say_what_is_there_and_who_makes_what_is_not(
    environ: Mapping[str, str], iam: Any
) -> None:
    asking = Asking("us-east-1", environ)
    before = [check_spot_role(look_spot_role(asking)), check_github(look_github(asking))]
    assert [each.verdict for each in before] == [Verdict.WARNING, Verdict.WARNING]
    assert all("burst up" in each.mend for each in before)
    prepare(cluster(aws="github: [owner/name]"), environ)
    after = [check_spot_role(look_spot_role(asking)), check_github(look_github(asking))]
    assert [each.verdict for each in after] == [Verdict.OK, Verdict.OK]
    asking.close()


def test_a_provider_for_another_audience_is_told() -> None:
    found = check_github(Provider(ARN, ("somebody.else",)))
    assert found.verdict is Verdict.WARNING
    assert AUDIENCE in found.found


def test_a_cluster_without_a_side_in_aws_is_refused(environ: Mapping[str, str]) -> None:
    with pytest.raises(ConfigError):
        prepare(ClusterConfig(), environ)
