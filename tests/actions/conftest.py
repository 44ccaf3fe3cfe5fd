"""A checkout with a short experiment, and a job that runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.actions.double import Job

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "burst-run"
CLUSTER = "pools:\n  local: {kind: local, slots: 1, idle: 1s}\n"
UNHURRIED = """
import time

from train import DigitsTrial


class Unhurried(DigitsTrial):
    def train_batch(self, *given):
        time.sleep(0.1)
        return super().train_batch(*given)
"""
"""So that a fast machine has not trained to the end before somebody cancels."""
GITHUB = {
    "repository": "acme/vision",
    "workflow": "Train",
    "run_id": "81",
    "run_attempt": "1",
    "job": "train",
    "token": "ghs_of_the_job",
    "actor": "ada",
}


@dataclass
class Site:
    """A machine of GitHub's, with one slot, and the checkout on it."""

    workspace: Path
    place: Path
    home: Path
    more: dict[str, str] = field(default_factory=dict)
    """Environment of its own."""

    def job(self, matrix: Mapping[str, Any] | None = None, **github: Any) -> Job:
        return Job(ACTION, self.place, self.workspace, self.environ, {**GITHUB, **github}, matrix)

    @property
    def environ(self) -> dict[str, str]:
        kept = ("HOME", "LANG", "TMPDIR", "PYTHONPATH")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "PATH": path,
            "BURST_HOME": str(self.home),
            "no_proxy": "127.0.0.1",
            **self.more,
        }

    def burst(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "burst.cli", *words],
            cwd=self.workspace / "models",
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def experiments(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.burst("ls", "--json", "--all"))
        return found


@pytest.fixture
def site(tmp_path: Path, burst_home: Path) -> Iterator[Site]:
    workspace = tmp_path / "checkout"
    shutil.copytree(ROOT / "examples" / "digits", workspace / "models")
    (workspace / "models" / "burst.yaml").write_text(CLUSTER)
    (workspace / "models" / "unhurried.py").write_text(UNHURRIED)
    place = tmp_path / "temp"
    place.mkdir()
    yield Site(workspace, place, burst_home)
    _end_processes_of(burst_home)


def _end_processes_of(home: Path) -> None:
    """Whatever still runs for this home: a test that failed may have left it."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("BURST_HOME") == str(home) and process.pid != os.getpid():
                process.kill()
        except (psutil.Error, OSError):
            continue
