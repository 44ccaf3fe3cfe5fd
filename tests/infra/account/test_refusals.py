"""What stands in the way is told with what to do about it, and nothing is changed."""

from __future__ import annotations

import os
import signal

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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize(
    ("command", "early", "told"),
    [
        (["up", "--yes"], "up.preflight", "`burst up` begins anew"),
        (["down", "--yes", "--keep-data"], "down.take_stock", "`burst down` goes on from there"),
    ],
)
def test_a_signal_at_any_moment_is_an_interrupt(
    number: signal.Signals,
    command: list[str],
    early: str,
    told: str,
    person: Person,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = signal.getsignal(number)
    monkeypatch.setattr(
        f"burst.cli.account.{early}", lambda *_, **__: os.kill(os.getpid(), number)
    )
    assert told in person.types(*command, status=130).stderr
    assert signal.getsignal(number) is before


def test_no_answer_is_no_refusal(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = {"AWS_ENDPOINT_URL_EC2": "http://127.0.0.1:9"}
    person.types("up", "--yes", status=6, **silent)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(person.folder / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(person.folder / "none"))
    for command in (["up", "--yes"], ["down", "--yes", "--keep-data"]):
        assert "redential" in person.types(*command, status=6).stderr


def test_where_nobody_can_be_asked_what_is_said_to_type_does_not_fail(person: Person) -> None:
    told = person.types("down", status=2).stderr
    assert "burst down --yes --keep-data" in told
    assert "burst down --yes --delete-data" in told
    for flag in ("--keep-data", "--delete-data"):
        assert f"add --yes: burst down --yes {flag}" in person.types("down", flag, status=2).stderr
    assert "add --yes: burst up --yes" in person.types("up", status=2).stderr


def test_a_bad_name_of_a_stack_is_told_with_what_to_do(person: Person) -> None:
    told = person.types("up", "--preview", "--stack", "a/b", status=2).stderr
    assert "without it, it has the cluster's name" in told
