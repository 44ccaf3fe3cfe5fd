"""A trial that begins here, goes on in the cloud and comes back, ends as if it had never moved."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from burst.core.config.load import parse_cluster
from burst.runner.rehearsal.account import build_account
from burst.runner.rehearsal.servers import serve
from tests.rehearsal.test_rehearsing import DIGITS, FOUR, sums_of

CLUSTER = """
cluster: lab
aws: {region: us-east-1, runner: here}
store: "dynamodb://burst-lab?region=us-east-1"
blobs: "s3://burst-lab?region=us-east-1"
pools:
  local: {kind: local, slots: 1, idle: 3s}
  spot: {kind: aws, instance_types: [c5.large], slots_per_node: 1, max_nodes: 2, idle: 3s}
"""
ONE = FOUR.replace("{type: categorical, vals: [0.001, 0.002, 0.004, 0.008]}", "0.004").replace(
    "name: grid", "name: single"
)
ONE = ONE.replace("6ep", "4ep")
SLOWLY = "entrypoint=unhurried:Unhurried"


UNHURRIED = """
import time
from typing import Any

from train import DigitsTrial


class Unhurried(DigitsTrial):
    def train_batch(self, *given: Any) -> Any:
        time.sleep(0.1)
        return super().train_batch(*given)
"""


class Person:
    """Somebody with a terminal, whose cluster may be in the rehearsed cloud."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.environ = {**os.environ, **environ}

    def __call__(self, *words: str) -> str:
        command = [sys.executable, "-m", "burst.cli", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))

    def follow(self, *words: str) -> Iterator[dict[str, Any]]:
        command = [sys.executable, "-m", "burst.cli", *words, "--json"]
        process = subprocess.Popen(
            command, cwd=self.folder, env=self.environ, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                yield json.loads(line)
        assert process.wait() == 0


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    shutil.copy(DIGITS, folder / "train.py")
    (folder / "unhurried.py").write_text(UNHURRIED)
    (folder / "exp.yaml").write_text(ONE)
    return folder


@pytest.mark.slow
def test_a_trial_goes_to_the_cloud_and_comes_back_with_the_same_bytes(work: Path) -> None:
    home = {"BURST_HOME": str(work.parent / "undisturbed")}
    alone = Person(work, home)
    alone("run", "exp.yaml")
    here = work.parent / "here"
    alone("checkpoint", "download", "latest.t0", str(here))

    (work / "burst.yaml").write_text(CLUSTER)
    with serve(work.parent / "cloud") as servers, pytest.MonkeyPatch.context() as patch:
        for name, value in servers.environ.items():
            patch.setenv(name, value)
        build_account(parse_cluster(CLUSTER, "burst.yaml"), CLUSTER, servers.environ)
        person = Person(work, {"BURST_HOME": str(work.parent / "home")})
        where: list[str] = []
        for line in person.follow("run", "exp.yaml", "--pool", "local", "--set", SLOWLY):
            if line["type"] == "event" and line["name"] == "trial.running":
                where.append(person.json("show", "latest.t0")["pool"])
            if line["type"] == "validation" and len(where) < 3:
                there = "spot" if where[-1] == "local" else "local"
                person("move", "latest.t0", "--pool", there, "--unproved")
        back = work.parent / "back"
        person("checkpoint", "download", "latest.t0", str(back))
        assert where[:3] == ["local", "spot", "local"]
        assert sums_of(back) == sums_of(here)
        found = person.json("audit")
        assert {row["verdict"] for row in found} <= {"owned"}
