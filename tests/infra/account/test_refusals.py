"""What stands in the way is told with what to do about it, and nothing is changed."""

from __future__ import annotations

import os

import pytest
from boto3.session import Session
from pulumi.automation import PulumiCommand

from burst.core.aws.names import REGION, role_name, tag_list, tags_of
from burst.infra.engine.changes import Changes, step
from tests.infra.account.conftest import Person

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*has been deprecated in favor of:DeprecationWarning"
)
"""Pulumi's library for AWS warns of parts of its own."""


@pytest.fixture
def without_pulumi(person: Person, monkeypatch: pytest.MonkeyPatch) -> Person:
    found = [each for each in os.environ["PATH"].split(os.pathsep) if "pulumi" not in each]
    monkeypatch.setenv("PATH", os.pathsep.join(found))
    monkeypatch.setenv("HOME", str(person.folder))
    return person


def test_without_pulumi_it_is_said_what_to_type_where_it_cannot_be_had(
    without_pulumi: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(root: str, version: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(PulumiCommand, "_install_posix", fail)
    told = without_pulumi.types("up", "--yes", status=6).stderr
    assert "There is no `pulumi` command on this machine" in told
    assert "no route to host" in told
    assert "curl -fO https://get.pulumi.com/releases/sdk/pulumi-v" in told
    assert without_pulumi.things() == []


def test_without_consent_pulumi_is_not_installed(
    without_pulumi: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burst.cli.account.asking.can_ask", lambda: True)
    told = without_pulumi.types("up", status=5, answers="n\n").stderr
    assert "Download Pulumi" in told
    assert "there is no `pulumi` command" in told


def test_the_wrong_account_is_refused_before_anything_is_made(person: Person) -> None:
    text = person.file.read_text().replace("aws: {", "aws: {account: '210987654321', ")
    person.file.write_text(text)
    for command in (["up", "--yes"], ["down", "--yes", "--keep-data"]):
        told = person.types(*command, status=5).stderr
        assert "210987654321" in told
        assert "AWS_PROFILE" in told


def test_a_cluster_of_the_same_name_in_another_region_is_not_taken_down(person: Person) -> None:
    iam = Session().client("iam")
    tags = {**tags_of(person.cluster), REGION: "eu-west-1"}
    role = role_name(person.cluster, "node")
    iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}", Tags=tag_list(tags))
    try:
        told = person.types("down", "--yes", "--delete-data", status=5).stderr
        assert "is in region eu-west-1" in told
        assert "us-east-1" in told
        assert iam.get_role(RoleName=role)
    finally:
        iam.delete_role(RoleName=role)


@pytest.mark.slow
def test_a_no_changes_nothing(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burst.cli.account.asking.can_ask", lambda: True)
    told = person.types("up", status=1, answers="n\n")
    assert "Nothing was changed." in told.stderr
    assert person.things() == []


def test_what_would_lose_data_is_refused(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Pulumi tells it: the table would be made anew."""
    urn = "urn:pulumi:x::burst::burst:infra:Storage$aws:dynamodb/table:Table::table"
    losing = Changes.of([step("replace", urn, ["hashKey"])])
    monkeypatch.setattr("burst.infra.engine.stack.Engine.preview", lambda *_, **__: losing)
    told = person.types("up", "--yes", status=5).stderr
    assert "would remove table table with all that is in it" in told
    assert "hashKey" in told
    assert "burst down --delete-data" in told
    assert person.things() == []
