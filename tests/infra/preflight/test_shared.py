"""What all clusters of an account share is made once, whoever begins."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.stub import Stubber

from burst.core.config.cluster import ClusterConfig
from burst.core.errors import ConfigError, Refused
from burst.infra.preflight import Verdict, prepare
from burst.infra.preflight.asking import Asking
from burst.infra.preflight.shared import (
    AUDIENCE,
    Provider,
    check_github,
    check_spot_role,
    look_github,
    look_spot_role,
    prepare_github,
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


def test_a_provider_for_another_audience_is_made_to_accept_ours_too() -> None:
    """ministack has no such call: botocore's stubber holds it against IAM's own model."""
    asking = Asking("us-east-1", {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"})
    named = {"OpenIDConnectProviderArn": ARN}
    with Stubber(asking.client("iam")) as stub:
        listed = {"OpenIDConnectProviderList": [{"Arn": ARN}]}
        stub.add_response("list_open_id_connect_providers", listed)
        known_for = {"ClientIDList": ["somebody.else"]}
        stub.add_response("get_open_id_connect_provider", known_for, named)
        added = {**named, "ClientID": AUDIENCE}
        stub.add_response("add_client_id_to_open_id_connect_provider", {}, added)
        assert prepare_github(asking) == [f"the audience {AUDIENCE} of {ARN}"]
        stub.assert_no_pending_responses()
    asking.close()


@pytest.mark.parametrize("there", [True, False])
def test_a_refusal_counts_unless_what_was_to_be_made_is_there(there: bool) -> None:
    """Two begin at once, and IAM's codes for the second differ."""
    asking = Asking("us-east-1", {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"})
    with Stubber(asking.client("iam")) as stub:
        stub.add_response("list_open_id_connect_providers", {"OpenIDConnectProviderList": []})
        stub.add_client_error("create_open_id_connect_provider", "EntityAlreadyExists", "it is")
        listed = {"OpenIDConnectProviderList": [{"Arn": ARN}] if there else []}
        stub.add_response("list_open_id_connect_providers", listed)
        if there:
            stub.add_response("get_open_id_connect_provider", {"ClientIDList": [AUDIENCE]})
            assert len(prepare_github(asking)) == 1
        else:
            with pytest.raises(Refused, match="EntityAlreadyExists"):
                prepare_github(asking)
    asking.close()
