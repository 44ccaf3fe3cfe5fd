"""`burst doctor --cloud` before anything is built: what `burst up` would find."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from burst.cli.root import cli
from burst.cli.session import Session
from burst.core.errors import ExitCode
from burst.runner.rehearsal.control import Ec2Control
from tests.infra.preflight.clients import IMAGE, SPOT, new_name


def doctor(folder: Path, environ: Mapping[str, str], *words: str) -> Result:
    session = Session(environ={**environ, "BURST_HOME": str(folder / "home")}, cwd=folder)
    return CliRunner().invoke(cli, ["doctor", "--cloud", *words], obj=session)


def write(folder: Path, aws: str = "") -> None:
    (folder / "burst.yaml").write_text(
        f"cluster: {new_name()}\naws:\n  region: us-east-1\n  image: {IMAGE}\n{aws}"
        f"pools:\n  spot: {SPOT}\n"
    )


def test_a_cluster_that_can_be_built_is_told_as_that(
    environ: Mapping[str, str], tmp_path: Path
) -> None:
    write(tmp_path)
    found = doctor(tmp_path, environ)
    assert found.exit_code == 0, found.output
    assert found.stdout.rstrip().endswith("Nothing stands in the way of `burst up`.")
    assert "g5.xlarge, g6.xlarge in us-east-1a" in found.stdout
    assert "nothing of the cluster is there yet" in found.stdout
    assert not (tmp_path / "home").exists()  # no state is needed


def test_what_stands_in_the_way_is_told_and_is_the_exit_status(
    environ: Mapping[str, str], tmp_path: Path, control: Ec2Control
) -> None:
    write(tmp_path)
    control.set_quota(0, kind="G and VT")
    found = doctor(tmp_path, environ)
    assert found.exit_code == ExitCode.FAILED
    assert "1 of " in found.stdout
    assert "L-3819A6DF" in found.stdout
    rows = json.loads(doctor(tmp_path, environ, "--json").stdout)
    (bad,) = [row for row in rows if not row["ok"]]
    assert bad["name"] == "quota of spot"
    assert "servicequotas" in bad["mend"]


def test_awss_own_code_is_in_what_is_told(environ: Mapping[str, str], tmp_path: Path) -> None:
    write(tmp_path)
    text = (tmp_path / "burst.yaml").read_text()
    (tmp_path / "burst.yaml").write_text(text.replace(IMAGE, "ami-0123456789abcdef0"))
    rows = json.loads(doctor(tmp_path, environ, "--json").stdout)
    (bad,) = [row for row in rows if not row["ok"]]
    assert (bad["name"], bad["code"]) == ("image", "InvalidAMIID.NotFound")


@pytest.mark.parametrize("text", ["", "cluster: it\n"])
def test_a_cluster_without_a_side_in_aws_is_a_mistake_of_its_file(
    environ: Mapping[str, str], tmp_path: Path, text: str
) -> None:
    if text:
        (tmp_path / "burst.yaml").write_text(text)
    found = doctor(tmp_path, environ)
    assert found.exit_code == ExitCode.CONFIG
    assert "aws: {region: us-east-1}" in found.stderr
