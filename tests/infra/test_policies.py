"""What the policies keep from those who have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from burst.core.aws.names import longest_cluster_name
from burst.core.errors import ConfigError
from burst.infra.policies.bucket import bucket_policy
from burst.infra.policies.documents import as_text
from burst.infra.policies.node import node_policy
from burst.infra.policies.people import (
    admin_policy,
    auditor_policy,
    submitter_policy,
    viewer_policy,
)
from burst.infra.policies.place import Place
from burst.infra.policies.runner import runner_policy
from burst.infra.policies.topic import topic_policy
from burst.infra.policies.trusts import trust_of, trust_of_github
from burst.infra.settings import Settings
from tests.infra.evaluating import Request, actions_of, is_allowed, many, statements_of
from tests.infra.registering import settings_of

Policy = Callable[[Settings], Mapping[str, Any]]

ALL: Mapping[str, Policy] = {
    "node": node_policy,
    "runner": runner_policy,
    "viewer": viewer_policy,
    "auditor": auditor_policy,
    "submitter": submitter_policy,
    "admin": admin_policy,
}
BUYERS: Mapping[str, Policy] = {"runner": runner_policy, "admin": admin_policy}
LAB = settings_of()
PLACE = Place.of(LAB)
OURS, THEIRS = {"burst:cluster": "lab"}, {"burst:cluster": "other"}
_CHANGES = re.compile(r"(Put|Update|Delete|Create|Run|Terminate|Pass|Invoke|Abort|Condition)")
_MANAGED, _INLINE = 6144, 10240
"""Characters that IAM takes of a policy."""
_LISTS = re.compile(
    r"(Describe|List|Get|View)\w+|UpdateInstanceInformation|\w+(Data|Control)Channel"
)
"""Of actions that AWS checks against no resource."""


def allows(policy: Policy, action: str, resource: str, **context: str) -> bool:
    return is_allowed([policy(LAB)], Request(action, resource, context))


def tagged(key: str, tags: Mapping[str, str]) -> dict[str, str]:
    return {f"aws:{key}/{name}": value for name, value in tags.items()}


def ec2(kind: str, id: str = "x-1") -> str:
    return PLACE.arn("ec2", f"{kind}/{id}")


@pytest.mark.parametrize("name", ALL)
def test_no_policy_has_a_wildcard_for_an_action(name: str) -> None:
    for text in ("", "endpoints: [sessions, images]"):
        assert not [each for each in actions_of(ALL[name](settings_of(text))) if "*" in each]


@pytest.mark.parametrize("name", ALL)
def test_only_what_lists_and_reads_is_of_any_resource(name: str) -> None:
    for text in ("", "endpoints: [sessions, images]"):
        for statement in statements_of(ALL[name](settings_of(text))):
            if "*" in many(statement["Resource"]):
                found = [each.partition(":")[2] for each in many(statement["Action"])]
                assert all(_LISTS.fullmatch(each) for each in found), statement


@pytest.mark.parametrize(
    ("region", "partition"),
    [
        ("us-east-1", "aws"),
        ("ap-southeast-1", "aws"),
        ("us-gov-east-1", "aws-us-gov"),
        ("cn-northwest-1", "aws-cn"),
    ],
)
@pytest.mark.parametrize("name", ALL)
def test_no_policy_is_longer_than_iam_takes(name: str, region: str, partition: str) -> None:
    longest = "a" * longest_cluster_name(region)
    text = "endpoints: [sessions, images]"
    settings = settings_of(text, cluster=longest, region=region, partition=partition)
    limit = _INLINE if name in ("node", "runner") else _MANAGED
    assert len(as_text(ALL[name](settings))) <= limit


@pytest.mark.parametrize("name", ALL)
def test_every_arn_is_of_the_region_and_partition_that_the_cluster_is_in(name: str) -> None:
    settings = settings_of(region="cn-north-1", partition="aws-cn")
    for statement in statements_of(ALL[name](settings)):
        for arn in many(statement["Resource"]):
            if arn != "*":
                _, partition, service, region, *_ = arn.split(":", 5)
                assert partition == "aws-cn"
                everywhere = service in ("iam", "s3") or ":dashboard/" in arn
                assert region == ("" if everywhere else "cn-north-1")


@pytest.mark.parametrize("name", ALL)
def test_another_cluster_of_the_account_is_out_of_reach(name: str) -> None:
    """One whose name begins like this one's, too."""
    for cluster in ("other", "lab-2"):
        other = Place(
            "lab-2" if cluster == "lab-2" else "other", PLACE.account, "us-east-1", "aws"
        )
        for action in ("GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem"):
            assert not allows(ALL[name], f"dynamodb:{action}", other.table)
            assert not allows(ALL[name], f"dynamodb:{action}", f"{other.table}/index/live")
        for action in (
            "s3:GetObject",
            "s3:PutObject",
            "s3:DeleteObject",
            "s3:AbortMultipartUpload",
        ):
            assert not allows(ALL[name], action, f"{other.bucket}/checkpoints/x")
        assert not allows(ALL[name], "s3:ListBucket", other.bucket)
        assert not allows(ALL[name], "lambda:InvokeFunction", other.function)


@pytest.mark.parametrize("name", ["viewer", "auditor"])
def test_who_only_looks_changes_nothing(name: str) -> None:
    changing = [each for each in actions_of(ALL[name](LAB)) if _CHANGES.match(each.split(":")[1])]
    assert not changing


@pytest.mark.parametrize("name", ["node", "viewer", "auditor", "submitter"])
def test_only_the_runner_and_admins_buy_and_end_machines(name: str) -> None:
    buying = {"CreateFleet", "RunInstances", "CreateTags", "TerminateInstances", "PassRole"}
    assert not buying & {each.split(":")[1] for each in actions_of(ALL[name](LAB))}


def test_nodes_ask_ec2_for_nothing() -> None:
    services = {each.split(":")[0] for each in actions_of(node_policy(LAB))}
    assert services == {"dynamodb", "s3"}


@pytest.mark.parametrize("name", ALL)
def test_what_nodes_and_the_function_run_is_written_by_admins_alone(name: str) -> None:
    for key in ("cluster/burst.yaml", "cluster/node-0.zip"):
        for action in ("s3:PutObject", "s3:DeleteObject"):
            allowed = allows(ALL[name], action, f"{PLACE.bucket}/{key}")
            assert allowed is (name == "admin")


@pytest.mark.parametrize("name", ALL)
def test_nobody_changes_the_table_or_the_bucket_themselves(name: str) -> None:
    for action in ("DeleteTable", "UpdateTable", "BatchWriteItem", "UpdateTimeToLive"):
        assert not allows(ALL[name], f"dynamodb:{action}", PLACE.table)
    # An auditor looks whether a table that nobody has tagged is empty.
    assert allows(ALL[name], "dynamodb:Scan", PLACE.table) is (name == "auditor")
    for action in ("DeleteBucket", "PutBucketPolicy", "PutLifecycleConfiguration"):
        assert not allows(ALL[name], f"s3:{action}", PLACE.bucket)
    assert not allows(ALL[name], "s3:DeleteObjectVersion", f"{PLACE.bucket}/checkpoints/x")


@pytest.mark.parametrize("name", BUYERS)
@pytest.mark.parametrize("action", ["ec2:CreateFleet", "ec2:RunInstances"])
def test_machines_come_from_templates_and_subnets_of_the_cluster_alone(
    name: str, action: str
) -> None:
    for kind in ("launch-template", "subnet", "security-group"):
        assert allows(BUYERS[name], action, ec2(kind), **tagged("ResourceTag", OURS))
        assert not allows(BUYERS[name], action, ec2(kind), **tagged("ResourceTag", THEIRS))
        assert not allows(BUYERS[name], action, ec2(kind))
    assert allows(BUYERS[name], action, ec2("placement-group", "burst-lab-launch-1"))
    assert not allows(BUYERS[name], action, ec2("placement-group", "burst-other-launch-1"))
    assert not allows(BUYERS[name], action, ec2("key-pair", "mine"))


@pytest.mark.parametrize("name", BUYERS)
@pytest.mark.parametrize("kind", ["instance", "volume", "network-interface", "fleet"])
def test_nothing_is_bought_without_the_tag_that_it_is_found_by(name: str, kind: str) -> None:
    for action in ("ec2:CreateFleet", "ec2:RunInstances"):
        assert allows(BUYERS[name], action, ec2(kind, "*"), **tagged("RequestTag", OURS))
        assert not allows(BUYERS[name], action, ec2(kind, "*"), **tagged("RequestTag", THEIRS))
        assert not allows(BUYERS[name], action, ec2(kind, "*"))


@pytest.mark.parametrize("name", BUYERS)
def test_what_is_not_being_made_cannot_be_tagged(name: str) -> None:
    """Who could tag anybody's machine could end it."""
    ours = tagged("RequestTag", OURS)
    making = {**ours, "ec2:CreateAction": "CreateFleet"}
    assert allows(BUYERS[name], "ec2:CreateTags", ec2("instance"), **making)
    assert not allows(BUYERS[name], "ec2:CreateTags", ec2("instance"), **ours)
    for action in ("CreateLaunchTemplate", "CreateSubnet"):
        made = {**ours, "ec2:CreateAction": action}
        assert not allows(BUYERS[name], "ec2:CreateTags", ec2("instance"), **made)
    assert not allows(BUYERS[name], "ec2:CreateTags", ec2("launch-template"), **making)
    assert not allows(BUYERS[name], "ec2:DeleteTags", ec2("instance"), **making)


@pytest.mark.parametrize("name", BUYERS)
@pytest.mark.parametrize(
    ("action", "kind"),
    [
        ("TerminateInstances", "instance"),
        ("GetConsoleOutput", "instance"),
        ("DeleteVolume", "volume"),
        ("DeleteNetworkInterface", "network-interface"),
        ("DeletePlacementGroup", "placement-group"),
    ],
)
def test_what_carries_no_tag_of_the_cluster_cannot_be_ended(
    name: str, action: str, kind: str
) -> None:
    assert allows(BUYERS[name], f"ec2:{action}", ec2(kind), **tagged("ResourceTag", OURS))
    assert not allows(BUYERS[name], f"ec2:{action}", ec2(kind), **tagged("ResourceTag", THEIRS))
    assert not allows(BUYERS[name], f"ec2:{action}", ec2(kind))


@pytest.mark.parametrize("name", BUYERS)
def test_a_machine_is_given_the_nodes_role_and_no_other(name: str) -> None:
    to = {"iam:PassedToService": "ec2.amazonaws.com"}
    assert allows(BUYERS[name], "iam:PassRole", PLACE.role("node"), **to)
    assert not allows(BUYERS[name], "iam:PassRole", PLACE.role("runner"), **to)
    for other in ({"iam:PassedToService": "lambda.amazonaws.com"}, {}):
        assert not allows(BUYERS[name], "iam:PassRole", PLACE.role("node"), **other)


@pytest.mark.parametrize("name", BUYERS)
def test_machines_are_looked_at_in_the_clusters_region_alone(name: str) -> None:
    here, there = {"aws:RequestedRegion": "us-east-1"}, {"aws:RequestedRegion": "eu-west-1"}
    assert allows(BUYERS[name], "ec2:DescribeInstances", "*", **here)
    assert not allows(BUYERS[name], "ec2:DescribeInstances", "*", **there)


@pytest.mark.parametrize(
    ("image", "parameter"),
    [
        ("resolve:ssm:/aws/service/x/latest/ami-id", "::parameter/aws/service/x/latest/ami-id"),
        ("resolve:ssm:/mine/image:3", ":123456789012:parameter/mine/image"),
        ("resolve:ssm:image", ":123456789012:parameter/image"),
        ("ami-0123456789abcdef0", None),
    ],
)
def test_of_parameters_the_runner_reads_the_one_that_names_the_image(
    image: str, parameter: str | None
) -> None:
    found = [
        statement["Resource"]
        for statement in statements_of(runner_policy(settings_of(f'image: "{image}"')))
        if statement["Action"] == "ssm:GetParameters"
    ]
    assert found == ([f"arn:aws:ssm:us-east-1{parameter}"] if parameter else [])


def test_an_admin_may_what_a_submitter_and_the_runner_may() -> None:
    functions = {"WriteLog", "HearOfRecords"}  # what AWS does in the function's name
    for policy in (submitter_policy(LAB), runner_policy(LAB)):
        for statement in statements_of(policy):
            if statement["Sid"] in functions:
                continue
            context = {
                key: many(value)[0]
                for keys in statement.get("Condition", {}).values()
                for key, value in keys.items()
            }
            for action in many(statement["Action"]):
                for resource in many(statement["Resource"]):
                    request = Request(action, resource, context)
                    assert is_allowed([admin_policy(LAB)], request), request


@pytest.mark.parametrize(
    ("text", "services"),
    [
        ("", set()),
        ("endpoints: [sessions]", {"ssm", "ssmmessages"}),
        ("endpoints: [images]", {"ecr"}),
        ("nat: true", {"ssm", "ssmmessages", "ecr"}),
    ],
)
def test_nodes_may_use_a_service_only_where_they_have_a_way_to_it(
    text: str, services: set[str]
) -> None:
    more = actions_of(node_policy(settings_of(text))) - actions_of(node_policy(LAB))
    assert {each.split(":")[0] for each in more} == services


# --- trust ---


@pytest.mark.parametrize(
    ("partition", "service", "principal"),
    [
        ("aws", "ec2", "ec2.amazonaws.com"),
        ("aws", "lambda", "lambda.amazonaws.com"),
        ("aws-cn", "ec2", "ec2.amazonaws.com.cn"),
        ("aws-cn", "lambda", "lambda.amazonaws.com"),
    ],
)
def test_a_role_is_one_services(partition: str, service: str, principal: str) -> None:
    place = Place("lab", PLACE.account, "us-east-1", partition)
    (statement,) = trust_of(place, service)["Statement"]
    assert statement["Principal"] == {"Service": principal}
    assert statement["Action"] == "sts:AssumeRole"


def comes_in(entries: list[str], subject: str, audience: str = "sts.amazonaws.com") -> bool:
    issuer = "token.actions.githubusercontent.com"
    claims = {f"{issuer}:sub": subject, f"{issuer}:aud": audience}
    request = Request("sts:AssumeRoleWithWebIdentity", "*", claims)
    return is_allowed([trust_of_github(PLACE, entries)], request)


def test_a_repository_that_is_named_comes_in_whatever_started_it() -> None:
    for rest in ("ref:refs/heads/main", "pull_request", "environment:production"):
        assert comes_in(["me/mine", "me/other"], f"repo:me/mine:{rest}")


@pytest.mark.parametrize(
    "subject",
    [
        "repo:me/mine2:ref:refs/heads/main",
        "repo:me2/mine:ref:refs/heads/main",
        "repo:evil/me/mine:ref:refs/heads/main",
        "repo:me/other:x",
        "repo:me@1/mine@2:ref:refs/heads/main",
        "repo:me/mine",
        "",
    ],
)
def test_another_repository_does_not(subject: str) -> None:
    assert not comes_in(["me/mine"], subject)


def test_a_subject_is_taken_to_the_letter() -> None:
    entries = ["me/mine:ref:refs/heads/main", "me@1/new@2:environment:production", "me@1/new@3"]
    assert comes_in(entries, "repo:me/mine:ref:refs/heads/main")
    assert not comes_in(entries, "repo:me/mine:ref:refs/heads/main2")
    assert not comes_in(entries, "repo:me/mine:pull_request")
    assert comes_in(entries, "repo:me@1/new@2:environment:production")
    assert comes_in(entries, "repo:me@1/new@3:ref:refs/heads/any")
    assert not comes_in(entries, "repo:me@9/new@3:ref:refs/heads/any")


def test_what_github_signed_for_another_does_not_count() -> None:
    for entry in ("me/mine", "me/mine:pull_request"):
        assert not comes_in([entry], "repo:me/mine:pull_request", "https://github.com/me")


def test_github_is_believed_through_the_accounts_one_provider() -> None:
    statements = trust_of_github(PLACE, ["me/mine", "me/mine:pull_request"])["Statement"]
    provider = "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"
    assert [each["Principal"] for each in statements] == [{"Federated": provider}] * 2


# --- resources' own ---


def test_the_bucket_lets_nobody_in_and_answers_over_tls_alone() -> None:
    policy = bucket_policy("aws", "burst-lab")
    assert {each["Effect"] for each in policy["Statement"]} == {"Deny"}
    mine = [viewer_policy(LAB), bucket_policy("aws", PLACE.bucket.rpartition(":")[2])]
    for secure, version, allowed in (
        ("true", "1.3", True),
        ("true", "1.2", True),
        ("true", "1.1", False),
        ("false", "", False),
    ):
        context = {
            "aws:SecureTransport": secure,
            **({"s3:TlsVersion": version} if version else {}),
        }
        request = Request("s3:GetObject", f"{PLACE.bucket}/logs/x", context)
        assert is_allowed(mine, request) is allowed


def test_alarms_of_the_cluster_alone_speak_through_its_topic() -> None:
    policy = topic_policy(PLACE, "burst-lab-alarms")
    topic = PLACE.arn("sns", "burst-lab-alarms")

    def speaks(alarm: str, account: str) -> bool:
        arn = f"arn:aws:cloudwatch:us-east-1:{account}:alarm:{alarm}"
        context = {"aws:SourceAccount": account, "aws:SourceArn": arn}
        return is_allowed([policy], Request("sns:Publish", topic, context))

    assert speaks("burst-lab-leak", PLACE.account)
    assert not speaks("burst-other-leak", PLACE.account)
    assert not speaks("burst-lab-leak", "210987654321")


def test_an_entry_has_the_numbers_that_github_signs_or_none_and_no_pattern() -> None:
    for entry in ("me/mine", "me@1/mine@2", "me@1/mine@2:pull_request"):
        assert settings_of(f'github: ["{entry}"]').aws.github == (entry,)
    for entry in ("me", "*/mine", "me/*", "me@x/mine", "me/mine:", "me/mine:ref:refs/heads/*"):
        with pytest.raises(ConfigError, match="is no repository"):
            settings_of(f'github: ["{entry}"]')
