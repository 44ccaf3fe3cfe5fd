"""`burst up` and `burst down` refuse, before anything is looked at, what cannot come to an end."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from burst.cli.account.asking import Asker
from burst.cli.session import Session
from burst.core.errors import UsageError
from tests.cli.conftest import Burst

FILE = """
cluster: lab
aws: {region: us-east-1}
pools:
  spot: {kind: aws, instance_types: [c5.large], max_nodes: 1}
"""


@pytest.fixture
def lab(burst: Burst) -> Burst:
    (burst.session.cwd / "burst.yaml").write_text(FILE)
    return burst


def test_nobody_who_can_be_asked_is_a_wrong_call(lab: Burst) -> None:
    for command in ("up", "down"):
        told = lab(command, status=2).stderr
        assert "nobody can answer here" in told
        assert f"burst {command} --yes" in told


def test_a_yes_does_not_say_what_becomes_of_the_data(lab: Burst) -> None:
    told = lab("down", "--yes", status=2).stderr
    assert "--yes does not say what becomes of the data" in told
    assert "--keep-data, or --delete-data" in told
    both = lab("down", "--yes", "--keep-data", "--delete-data", status=2).stderr
    assert "exclude each other" in both


@pytest.mark.parametrize(("command"), [["up", "--yes"], ["down", "--yes", "--keep-data"]])
def test_without_a_file_or_without_aws_in_it_there_is_nothing_to_build(
    command: list[str], burst: Burst
) -> None:
    told = burst(*command, status=3).stderr
    assert "there is no burst.yaml that says what to build" in told
    (burst.session.cwd / "burst.yaml").write_text("cluster: lab\n")
    told = burst(*command, status=3).stderr
    assert "has nothing to build in AWS" in told
    assert "add `aws: {region: us-east-1}`" in told


def test_a_wrong_file_is_told_with_its_place(burst: Burst) -> None:
    (burst.session.cwd / "burst.yaml").write_text("cluster: lab\naws: {regoin: us-east-1}\n")
    assert "burst.yaml:2:7" in burst("up", "--yes", status=3).stderr


def test_help_needs_nothing_that_builds(burst: Burst) -> None:
    assert "Ctrl-C stops it in order" in " ".join(burst("up", "--help").stdout.split())
    assert "--keep-data" in burst("down", "--help").stdout


def test_what_is_not_installed_is_told_before_anything_else(
    lab: Burst, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    told = lab("up", "--yes", status=1).stderr
    assert "there is no pulumi and no pulumi_aws" in told
    assert "pip install -e '.[infra]'" in told


def test_a_person_is_asked_and_yes_stands_for_them(
    lab: Burst, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("burst.cli.account.asking.can_ask", lambda: True)
    asker = Asker(lab.session, yes=False, command="burst up")
    heard: list[object] = []

    @click.command()
    def ask() -> None:
        heard.append(asker.agrees("Go on?"))
        heard.append(asker.types("All of it goes.", "lab"))
        heard.append(asker.types("All of it goes.", "lab"))
        heard.append(asker.chooses("What?", ("keep", "delete")))

    result = CliRunner().invoke(ask, input="y\nLab\nlab\nleave\nkeep\n")
    assert heard == [True, False, True, "keep"]
    assert result.stdout == ""  # questions are no data
    monkeypatch.setattr("burst.cli.account.asking.can_ask", lambda: False)
    assert Asker(lab.session, yes=True, command="burst up").agrees("Go on?")
    with pytest.raises(UsageError):
        Asker(lab.session, yes=False, command="burst up")


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Burst:
    """Somebody in the folder of a cluster in AWS, without credentials, wherever boto3 looks."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / "none"))
    (tmp_path / "burst.yaml").write_text(FILE)
    return Burst(Session(cwd=tmp_path))


def test_whose_state_is_in_aws_is_told_so_and_how_to_keep_it_elsewhere(nobody: Burst) -> None:
    told = " ".join(nobody("ls", status=6).stderr.split())
    assert "cluster lab keeps its state in AWS" in told
    for way in ("aws sso login", "`aws.account`", "`store` and `blobs`", "BURST_STORE"):
        assert way in told


def test_the_doctor_says_once_what_is_the_matter(nobody: Burst) -> None:
    rows = json.loads(nobody("doctor", "--json", status=1).stdout)
    bad = [row["name"] for row in rows if not row["ok"]]
    assert [name for name in bad if name != "torch"] == ["store"]
    assert {row["name"] for row in rows if "needs the store" in row["found"]} == {
        "blobs", "cluster", "runner", "leftovers",
    }  # fmt: skip
