"""What bears the names that a cluster needs is free, or its own, or stands in its way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from burst.core.aws.names import bucket_name, role_name, table_name, tag_list, tags_of
from burst.core.store.dynamodb.items import table_schema
from burst.infra.preflight.asking import Asking, Unknown
from burst.infra.preflight.checking import Check, Verdict
from burst.infra.preflight.claims import Claim, check_claims, look_claims
from burst.infra.preflight.identity import Identity
from tests.infra.preflight.clients import ACCOUNT, client, new_name

REGION = "us-east-1"
IDENTITY = Identity(ACCOUNT, "aws", f"arn:aws:iam::{ACCOUNT}:root")
TRUST = '{"Version": "2012-10-17", "Statement": []}'


def look(environ: Mapping[str, str], name: str, *templates: str) -> list[Claim | Unknown]:
    asking = Asking(REGION, environ)
    found = look_claims(asking, name, IDENTITY, templates)
    asking.close()
    return found


def check(environ: Mapping[str, str], name: str, *templates: str) -> Check:
    return check_claims(name, look(environ, name, *templates))


def _bucket(environ: Mapping[str, str], name: str, tags: list[dict[str, str]]) -> None:
    s3, bucket = client("s3", environ), bucket_name(name, ACCOUNT, REGION)
    s3.create_bucket(Bucket=bucket)
    if tags:
        s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    s3.close()


def _table(environ: Mapping[str, str], name: str, tags: list[dict[str, str]]) -> None:
    dynamodb = client("dynamodb", environ)
    more: dict[str, Any] = {"Tags": tags} if tags else {}
    dynamodb.create_table(**table_schema(table_name(name)), **more)
    dynamodb.close()


def _role(environ: Mapping[str, str], name: str, tags: list[dict[str, str]]) -> None:
    iam = client("iam", environ)
    role = role_name(name, "node")
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=TRUST, Tags=tags)
    iam.close()


def _template(environ: Mapping[str, str], name: str, tags: list[dict[str, str]]) -> None:
    ec2 = client("ec2", environ)
    tagged = [{"ResourceType": "launch-template", "Tags": tags}] if tags else []
    ec2.create_launch_template(
        LaunchTemplateName=f"burst/{name}/spot",
        LaunchTemplateData={"ImageId": "ami-0b0a57de1ea2a1a01"},
        TagSpecifications=tagged,
    )
    ec2.close()


THINGS = [_bucket, _table, _role, _template]
Make = Callable[[Mapping[str, str], str, list[dict[str, str]]], None]


def test_a_new_cluster_finds_every_name_free(environ: Mapping[str, str]) -> None:
    name = new_name()
    found = check(environ, name, f"burst/{name}/spot")
    assert found == Check("names", Verdict.OK, "all are free")


@pytest.mark.parametrize("make", THINGS)
def test_what_carries_no_tag_of_the_cluster_is_somebody_elses(
    environ: Mapping[str, str], make: Make
) -> None:
    name = new_name()
    make(environ, name, [])
    found = check(environ, name, f"burst/{name}/spot")
    assert found.verdict is Verdict.FAILED
    assert "carries no tag burst:cluster" in found.found
    assert "choose another name" in found.mend


@pytest.mark.parametrize("make", THINGS)
def test_what_carries_the_tag_of_another_cluster_is_named_with_it(
    environ: Mapping[str, str], make: Make
) -> None:
    name = new_name()
    make(environ, name, tag_list(tags_of("other")))
    found = check(environ, name, f"burst/{name}/spot")
    assert found.verdict is Verdict.FAILED
    assert "belongs to cluster other" in found.found


def test_what_is_there_already_of_this_cluster_is_fine(environ: Mapping[str, str]) -> None:
    name = new_name()
    for make in THINGS:
        make(environ, name, tag_list(tags_of(name)))
    found = check(environ, name, f"burst/{name}/spot")
    assert found.verdict is Verdict.OK
    assert found.found.startswith("4 of ")


def test_roles_alone_may_be_those_of_a_cluster_in_another_region(
    environ: Mapping[str, str],
) -> None:
    name = new_name()
    _role(environ, name, tag_list(tags_of(name)))
    found = check(environ, name, f"burst/{name}/spot")
    assert found.verdict is Verdict.WARNING
    assert "another region" in found.mend


def test_a_role_that_uses_the_bucket_of_another_region_stands_in_the_way(
    environ: Mapping[str, str],
) -> None:
    """Else the second cluster would fail half-way, and its end take the roles of the first."""
    name = new_name()
    _role(environ, name, tag_list(tags_of(name)))
    iam = client("iam", environ)
    for region, verdict in (("eu-west-3", Verdict.FAILED), (REGION, Verdict.WARNING)):
        allowed = {
            "Effect": "Allow",
            "Action": "s3:GetObject",
            "Resource": f"arn:aws:s3:::{bucket_name(name, ACCOUNT, region)}/*",
        }
        document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        iam.put_role_policy(
            RoleName=role_name(name, "node"), PolicyName="node", PolicyDocument=document
        )
        found = check(environ, name)
        assert found.verdict is verdict
        assert ("of another region" in found.found) is (verdict is Verdict.FAILED)
    iam.close()


def test_a_name_that_could_not_be_looked_at_is_a_warning_with_the_permission(
    environ: Mapping[str, str], control: Any
) -> None:
    name = new_name()
    control.fail("DescribeLaunchTemplates", "UnauthorizedOperation")
    found = check(environ, name, f"burst/{name}/spot")
    assert found.verdict is Verdict.WARNING
    assert "ec2:DescribeLaunchTemplates" in found.mend
    assert found.code == "UnauthorizedOperation"


def test_another_accounts_bucket_is_told_as_that() -> None:
    claims: list[Claim | Unknown] = [Claim("bucket", "burst-lab-1", "", abroad=True)]
    found = check_claims("lab", claims)
    assert found.verdict is Verdict.FAILED
    assert found.found == "bucket burst-lab-1 belongs to another AWS account"
