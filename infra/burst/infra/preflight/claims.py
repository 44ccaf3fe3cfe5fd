"""Whether what the cluster's things will be named is free, or theirs already."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from burst.core.aws.names import (
    CLUSTER,
    bucket_name,
    function_name,
    role_name,
    table_name,
    untag,
)
from burst.infra.preflight.asking import Asking, Unknown, at_once
from burst.infra.preflight.checking import Check, failed, ok, warning
from burst.infra.preflight.identity import Identity

_ROLES = ("node", "runner", "github")
_BUCKET = re.compile(r"arn:[a-z-]+:s3:::burst-")


@dataclass(frozen=True)
class Claim:
    """A name that the cluster needs, and whose it is."""

    kind: str
    name: str
    owner: str | None
    """The cluster whose tag it carries, empty if it carries none; None where it is free."""
    abroad: bool = False
    """Whether it belongs to another account."""
    elsewhere: bool = False
    """Whether it belongs to a cluster of the same name in another region."""


def look_claims(
    asking: Asking, cluster: str, identity: Identity, templates: Sequence[str]
) -> list[Claim | Unknown]:
    """
    Args:
        templates: names of the launch templates.
    """
    questions: dict[str, Callable[[], Claim | Unknown]] = {
        "bucket": lambda: _look_bucket(asking, cluster, identity.account),
        "table": lambda: _look_table(asking, table_name(cluster)),
        "function": lambda: _look_function(asking, function_name(cluster)),
    }
    for role in _ROLES:
        name = role_name(cluster, role)
        bucket = bucket_name(cluster, identity.account, asking.region)
        questions[name] = partial(_look_role, asking, name, bucket)
    for name in templates:
        questions[f"template {name}"] = partial(_look_template, asking, name)
    return list(at_once(questions).values())


def check_claims(cluster: str, claims: Sequence[Claim | Unknown]) -> Check:
    """One verdict over all names."""
    label = "names"
    known = [each for each in claims if not isinstance(each, Unknown)]
    unread = [each for each in claims if isinstance(each, Unknown)]
    foreign = [
        each
        for each in known
        if each.abroad or each.elsewhere or each.owner not in (None, cluster)
    ]
    if foreign:
        mend = "choose another name for the cluster in burst.yaml, or remove what has it"
        return failed(label, "; ".join(map(_whose, foreign)), mend)
    ours = [each for each in known if each.owner is not None]
    said = (
        "all are free" if not ours else f"{len(ours)} of {len(known)} are this cluster's already"
    )
    if unread:
        actions = ", ".join(sorted({each.action for each in unread}))
        first = unread[0]
        found = f"{said}; not known of {len(unread)}: {first.error.why or first.error.what}"
        return warning(label, found, f"allow {actions} to whoever asks", first.code)
    roles = {each.name for each in ours if each.kind == "role"}
    if roles and all(each.kind == "role" for each in ours):
        # Roles are the whole account's, all else is the region's.
        found = f"only the roles are there ({', '.join(sorted(roles))})"
        mend = (
            "if a cluster of this name is in another region, choose another name; "
            "if not, they are left of an interrupted call, and nothing is wrong"
        )
        return warning(label, found, mend)
    return ok(label, said)


def _whose(claim: Claim) -> str:
    if claim.abroad:
        return f"{claim.kind} {claim.name} belongs to another AWS account"
    if claim.elsewhere:
        return f"{claim.kind} {claim.name} belongs to cluster {claim.owner} of another region"
    if claim.owner:
        return f"{claim.kind} {claim.name} belongs to cluster {claim.owner}"
    return f"{claim.kind} {claim.name} is there, and carries no tag {CLUSTER}"


def _look_bucket(asking: Asking, cluster: str, account: str) -> Claim | Unknown:
    name = bucket_name(cluster, account, asking.region)

    def question() -> Claim:
        from botocore.exceptions import ClientError

        s3 = asking.client("s3")
        try:
            s3.head_bucket(Bucket=name)
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status == 404:
                return Claim("bucket", name, None)
            if status in (301, 403) and not _is_ours(s3, name):
                return Claim("bucket", name, "", abroad=True)
            raise
        return Claim("bucket", name, _tag(_bucket_tags(s3, name)))

    action = "s3:ListBucket, s3:GetBucketTagging and s3:ListAllMyBuckets"
    return asking.ask(f"cannot learn whose bucket {name} is", action, question)


def _is_ours(s3: Any, name: str) -> bool:
    """Whether the account has the bucket: S3 says "forbidden" of another's too."""
    pages = s3.get_paginator("list_buckets").paginate(Prefix=name)
    return any(each["Name"] == name for page in pages for each in page["Buckets"])


def _bucket_tags(s3: Any, name: str) -> dict[str, str]:
    from botocore.exceptions import ClientError

    try:
        return untag(s3.get_bucket_tagging(Bucket=name)["TagSet"])
    except ClientError as error:
        if error.response["Error"]["Code"] == "NoSuchTagSet":
            return {}
        raise


def _look_table(asking: Asking, name: str) -> Claim | Unknown:
    def question() -> Claim:
        client = asking.client("dynamodb")
        try:
            found = client.describe_table(TableName=name)
        except client.exceptions.ResourceNotFoundException:
            return Claim("table", name, None)
        tags = client.list_tags_of_resource(ResourceArn=found["Table"]["TableArn"])["Tags"]
        return Claim("table", name, _tag(untag(tags)))

    action = "dynamodb:DescribeTable and dynamodb:ListTagsOfResource"
    return asking.ask(f"cannot learn whose table {name} is", action, question)


def _look_function(asking: Asking, name: str) -> Claim | Unknown:
    def question() -> Claim:
        client = asking.client("lambda")
        try:
            found = client.get_function(FunctionName=name)
        except client.exceptions.ResourceNotFoundException:
            return Claim("function", name, None)
        there = str(found["Configuration"]["FunctionName"])
        return Claim("function", there, _tag(found.get("Tags", {})))

    return asking.ask(f"cannot learn whose function {name} is", "lambda:GetFunction", question)


def _look_role(asking: Asking, name: str, bucket: str) -> Claim | Unknown:
    """
    Args:
        bucket: the cluster's. Roles are the whole account's and buckets are named after their
            region, so which bucket a role may use tells whose it is.
    """

    def question() -> Claim:
        client = asking.client("iam")
        try:
            found = client.get_role(RoleName=name)["Role"]
        except client.exceptions.NoSuchEntityException:
            return Claim("role", name, None)
        policies = client.list_role_policies(RoleName=name)["PolicyNames"]
        texts = [
            json.dumps(client.get_role_policy(RoleName=name, PolicyName=each)["PolicyDocument"])
            for each in policies
        ]
        named = any(_BUCKET.search(text) for text in texts)
        ours = any(bucket in text for text in texts)
        return Claim("role", name, _tag(untag(found.get("Tags"))), elsewhere=named and not ours)

    action = "iam:GetRole, iam:ListRolePolicies and iam:GetRolePolicy"
    return asking.ask(f"cannot learn whose role {name} is", action, question)


def _look_template(asking: Asking, name: str) -> Claim | Unknown:
    def question() -> Claim:
        # By filter: asked by name, one that is not there would be an error.
        asked = [{"Name": "launch-template-name", "Values": [name]}]
        found = asking.client("ec2").describe_launch_templates(Filters=asked)["LaunchTemplates"]
        owner = _tag(untag(found[0].get("Tags"))) if found else None
        return Claim("launch template", name, owner)

    what = f"cannot learn whose launch template {name} is"
    return asking.ask(what, "ec2:DescribeLaunchTemplates", question)


def _tag(tags: Mapping[str, str]) -> str:
    return tags.get(CLUSTER, "")
