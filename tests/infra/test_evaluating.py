"""The evaluator that the policies are judged with agrees with IAM's own rules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.infra.evaluating import Request, is_allowed


def policy(*statements: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"Version": "2012-10-17", "Statement": list(statements)}]


def allow(action: Any = "s3:GetObject", resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


READ = Request("s3:GetObject", "arn:aws:s3:::bucket/key")


def test_nothing_is_allowed_that_no_statement_allows() -> None:
    assert not is_allowed([], READ)
    assert not is_allowed(policy(allow("s3:PutObject")), READ)
    assert is_allowed(policy(allow()), READ)


def test_a_denial_wins_over_whatever_allows_it() -> None:
    assert not is_allowed(policy(allow(), {**allow("s3:*"), "Effect": "Deny"}), READ)


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        ("s3:get*", "*", True),
        ("s3:GetObjec?", "arn:aws:s3:::bucket/*", True),
        (
            ["s3:PutObject", "s3:GetObject"],
            ["arn:aws:s3:::other/*", "arn:aws:s3:::bucket/*"],
            True,
        ),
        ("s3:GetObject", "arn:aws:s3:::bucket", False),
        ("s3:GetObject", "arn:aws:s3:::Bucket/key", False),
        ("s3:GetObject", "arn:aws:s3:::bucket.key", False),
        ("s3:GetObjectVersion", "*", False),
    ],
)
def test_actions_and_resources_match_by_pattern(action: Any, resource: Any, allowed: bool) -> None:
    assert is_allowed(policy(allow(action, resource)), READ) is allowed


@pytest.mark.parametrize(
    ("condition", "allowed"),
    [
        ({"StringEquals": {"aws:RequestedRegion": "us-east-1"}}, True),
        ({"StringEquals": {"AWS:requestedregion": ["eu-west-1", "us-east-1"]}}, True),
        ({"StringEquals": {"aws:RequestedRegion": "us-*"}}, False),
        ({"StringLike": {"aws:RequestedRegion": "us-*"}}, True),
        ({"StringEquals": {"aws:RequestTag/burst:cluster": "lab"}}, False),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:events:*:1:rule/a-*"}}, True),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:*:rule/a-*"}}, False),
        ({"Bool": {"aws:SecureTransport": "false"}}, True),
        ({"NumericLessThan": {"s3:TlsVersion": "1.2"}}, True),
        ({"NumericLessThan": {"s3:TlsVersion": "1.1"}}, False),
        (
            {
                "StringEquals": {"aws:RequestedRegion": "us-east-1"},
                "Bool": {"aws:SecureTransport": "true"},
            },
            False,
        ),
    ],
)
def test_every_condition_has_to_hold(condition: dict[str, Any], allowed: bool) -> None:
    context = {
        "aws:RequestedRegion": "us-east-1",
        "aws:SourceArn": "arn:aws:events:us-east-1:1:rule/a-b",
        "aws:SecureTransport": "false",
        "s3:TlsVersion": "1.1",
    }
    asked = Request(READ.action, READ.resource, context)
    assert is_allowed(policy(allow(Condition=condition)), asked) is allowed


def test_what_it_cannot_judge_it_does_not_pass_over() -> None:
    with pytest.raises(AssertionError, match="NotResource"):
        is_allowed(policy({"Effect": "Allow", "Action": "*", "NotResource": "*"}), READ)
    with pytest.raises(KeyError, match="IpAddress"):
        is_allowed(policy(allow(Condition={"IpAddress": {"aws:SourceIp": "*"}})), READ)
