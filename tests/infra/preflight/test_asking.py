"""Whatever AWS answers to a look-up, it becomes an answer or words, and nothing is raised."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from burst.core.aws.names import bucket_name
from burst.core.errors import Refused, Unreachable
from burst.infra.preflight import Verdict, asking, preflight
from burst.infra.preflight.asking import Asking, Unknown, known
from burst.infra.preflight.checking import not_known
from burst.infra.preflight.claims import look_claims
from burst.infra.preflight.gathering import questions_of
from burst.infra.preflight.identity import Identity, look_identity, look_regions
from burst.infra.preflight.image import look_image
from burst.infra.preflight.network import look_vpcs
from burst.infra.preflight.places import look_kinds, look_offered
from burst.infra.preflight.quotas import look_quota
from burst.infra.preflight.shared import look_github, look_spot_role
from tests.infra.preflight.clients import ACCOUNT, cluster
from tests.infra.preflight.refusing import MODES, Mode, refusing

WHO = Identity(ACCOUNT, "aws", "arn:aws:iam::1:root")
LOOK_UPS: dict[str, Callable[[Asking], Any]] = {
    "sts:GetCallerIdentity": look_identity,
    "ec2:DescribeRegions": look_regions,
    "ec2:DescribeInstanceTypes": lambda a: look_kinds(a, ["g5.xlarge"]),
    "ec2:DescribeInstanceTypeOfferings": lambda a: look_offered(a, ["g5.xlarge"]),
    "ec2:DescribeImages": lambda a: look_image(a, "ami-1"),
    "ssm:GetParameter": lambda a: look_image(a, "resolve:ssm:/an/image"),
    "lambda:GetAccountSettings": lambda a: questions_of(cluster(), a)["executions"](),
    "servicequotas:GetServiceQuota": lambda a: look_quota(a, "ec2", "L-3819A6DF"),
    "ec2:DescribeVpcs": lambda a: look_vpcs(a, "lab"),
    "iam:ListRoles": look_spot_role,
    "iam:ListOpenIDConnectProviders": look_github,
    "s3:ListBucket": lambda a: look_claims(a, "lab", WHO, [])[0],
    "dynamodb:DescribeTable": lambda a: look_claims(a, "lab", WHO, [])[1],
    "lambda:GetFunction": lambda a: look_claims(a, "lab", WHO, [])[2],
    "iam:GetRole": lambda a: look_claims(a, "lab", WHO, [])[3],
    "ec2:DescribeLaunchTemplates": lambda a: look_claims(a, "lab", WHO, ["burst/lab/spot"])[6],
}
"""By the permission that each needs."""


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_ATTEMPTS", 1)


def ask_all(mode: Mode) -> dict[str, Any]:
    """The answers of all look-ups, by the permission that each needs."""
    with refusing(mode) as environ:
        made = Asking("us-east-1", environ)
        found = {action: look(made) for action, look in LOOK_UPS.items()}
        made.close()
    return found


@pytest.mark.parametrize("mode", MODES)
def test_no_answer_to_a_look_up_raises(mode: Mode) -> None:
    for action, answer in ask_all(mode).items():
        if isinstance(answer, Unknown):
            assert action in answer.action
            assert answer.error.what
            assert str(answer.error)
        else:
            assert mode == "empty", action  # of which a list without entries cannot be told


def test_a_permission_that_is_missing_is_named_and_is_no_failure() -> None:
    for action, answer in ask_all("denied").items():
        assert isinstance(answer, Unknown), action
        assert answer.denied
        check = not_known("it", answer)
        assert check.verdict is Verdict.WARNING
        assert action in check.mend
        assert check.code in ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
        assert "this is denied" in check.found
        with pytest.raises(Refused):
            known(answer)


@pytest.mark.parametrize("mode", ["denied", "garbage", "cut"])
def test_a_preflight_ends_in_words_whatever_is_answered(mode: Mode) -> None:
    with refusing(mode) as environ:
        found = preflight(cluster(aws="github: [owner/name]"), environ)
    assert found.facts is None
    assert found.failed
    assert all(check.found for check in found.checks)


def test_another_accounts_bucket_is_told_from_one_that_may_not_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S3 says "forbidden" of both; whether it is in the account's own list tells them apart."""
    from botocore.stub import ANY, Stubber

    def look(listed: list[dict[str, str]]) -> object:
        made = Asking("us-east-1", {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"})
        with Stubber(made.client("s3")) as stub:
            stub.add_client_error("head_bucket", "403", http_status_code=403)
            stub.add_response("list_buckets", {"Buckets": listed}, {"Prefix": ANY})
            return made.ask("it", "x", lambda: _bucket(made))

    def _bucket(made: Asking) -> object:
        from burst.infra.preflight.claims import _look_bucket

        return known(_look_bucket(made, "lab", ACCOUNT))

    theirs: Any = look([])
    assert theirs.abroad
    ours = look([{"Name": bucket_name("lab", ACCOUNT, "us-east-1")}])
    assert isinstance(ours, Unknown)


def test_a_quota_that_was_never_raised_is_the_one_that_every_account_has() -> None:
    from botocore.stub import Stubber

    made = Asking("us-east-1", {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"})
    asked = {"ServiceCode": "ec2", "QuotaCode": "L-3819A6DF"}
    with Stubber(made.client("service-quotas")) as stub:
        stub.add_client_error(
            "get_service_quota", "NoSuchResourceException", expected_params=asked
        )
        stub.add_response("get_aws_default_service_quota", {"Quota": {"Value": 5.0}}, asked)
        assert look_quota(made, "ec2", "L-3819A6DF") == 5.0
    made.close()


def test_an_answer_that_is_none_of_awss_is_no_refusal() -> None:
    with refusing("garbage") as environ:
        made = Asking("us-east-1", environ)
        answer = look_quota(made, "ec2", "L-3819A6DF")
        made.close()
    assert isinstance(answer, Unknown)
    assert type(answer.error) is Unreachable


def test_looking_at_an_account_needs_no_pulumi_and_loads_boto3_only_to_ask() -> None:
    program = (
        "import sys, burst.infra.preflight, burst.infra.preflight.costs, "
        "burst.infra.preflight.stages, burst.infra.standing.inspecting; "
        "print([name for name in ('pulumi', 'pulumi_aws', 'boto3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
