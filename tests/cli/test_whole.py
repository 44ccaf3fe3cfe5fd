"""The whole way, as a person goes it: real processes, a real home, a real trial."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from burst.cli import shapes
from tests.cli.test_looking import check

pytestmark = pytest.mark.slow

CLUSTER = "pools:\n  local: {kind: local, slots: 1, idle: 1s}\n"
BURST = [sys.executable, "-m", "burst.cli"]
PATIENCE_S = 120


@dataclass
class Place:
    """A folder with what `burst init` wrote, on a machine of one slot whose agent soon leaves."""

    folder: Path
    home: Path

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*BURST, *args],
            cwd=self.folder,
            env=os.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A suite that was started in the background has Ctrl-C ignored, and so would this.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def __call__(self, *args: str, status: int = 0) -> str:
        with self.start(*args) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == status, out + err
        return out

    def trial(self) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self("trial", "show", "latest", "--json"))
        return shown

    def until(self, *states: str, batches: int = 0) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            live = json.loads(self("ls", "--json"))
            trials = json.loads(self("trial", "list", "--json")) if live else []
            if trials and trials[0]["state"] in states and trials[0]["batches"] >= batches:
                return dict(trials[0])
            time.sleep(0.3)
        raise AssertionError(f"never {states}: {self('show')}")


@pytest.fixture
def place(tmp_path: Path, burst_home: Path) -> Iterator[Place]:
    made = Place(tmp_path / "new", burst_home)
    made.folder.mkdir()
    (made.folder / "burst.yaml").write_text(CLUSTER)
    made("init")
    yield made
    _end_processes_of(burst_home)


def _end_processes_of(home: Path) -> None:
    """Whatever still runs for this home: a test that failed may have left it."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("BURST_HOME") == str(home) and process.pid != os.getpid():
                process.kill()
        except (psutil.Error, OSError):
            continue


def test_what_init_writes_trains_and_everything_can_be_looked_at(
    place: Place, tmp_path: Path
) -> None:
    lines = place("run", "--json", "--set", "searcher.max_length=3ep").splitlines()
    told = [json.loads(line) for line in lines]
    by_type = {
        "plan": shapes.PlanJson,
        "experiment": shapes.ExperimentLineJson,
        "event": shapes.EventLineJson,
        "validation": shapes.ValidationLineJson,
        "wait": shapes.WaitLineJson,
        "result": shapes.ResultJson,
    }
    for one in told:
        check(one, by_type[one["type"]])
    assert [one["batches"] for one in told if one["type"] == "validation"] == [32, 64, 96]
    assert told[-1]["exit_code"] == 0
    assert told[-1]["experiment"]["state"] == "completed"

    assert place("show").startswith("✔ completed  spirals")
    csv = place("trial", "metrics", "latest", "-g", "validation", "--csv").splitlines()
    assert len(csv) == 4
    assert "as it was written" in place("checkpoint", "verify", "latest")
    files = place("checkpoint", "download", "latest", str(tmp_path / "weights")).splitlines()
    assert str(tmp_path / "weights" / "model.safetensors") in files


def test_ctrl_c_leaves_it_running_and_it_can_be_paused_and_resumed(place: Place) -> None:
    with place.start("run", "--set", "searcher.max_length=4000ep") as run:
        place.until("running", batches=1)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130
    assert "goes on in the background" in err
    assert place.until("running")["pool"] == "local"

    place("pause", "latest", "--wait")
    paused = place.trial()
    assert paused["state"] == "paused"
    assert paused["checkpoint"]
    assert "‖ paused" in place("wait", "latest", "--quiet", status=1)
    place("resume", "latest")
    assert place.until("running", batches=paused["batches"] + 1)["attempts"] == 2

    place("cancel", "latest", "--wait")
    assert place("wait", "latest", "--quiet", status=1).startswith("– cancelled")


def test_a_trial_that_raises_fails_with_its_own_traceback_first(place: Place) -> None:
    train = place.folder / "train.py"
    text = train.read_text().replace(
        "        loss =", '        raise ValueError("the roof is on fire")\n        loss =', 1
    )
    train.write_text(text)
    with place.start("run", "--set", "max_restarts=0") as run:
        out, _ = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 1
    summary = out.partition("\n\nTraceback")[2].splitlines()
    assert summary[1].startswith('  File "train.py", line ')
    assert "ValueError: the roof is on fire" in summary
    assert "the roof is on fire" in place("logs", "latest", "--launcher")


def test_two_runs_of_the_same_file_at_once_are_one_experiment(place: Place) -> None:
    both = [place.start("run", "exp.yaml", "--detach") for _ in range(2)]
    ids = {process.communicate(timeout=PATIENCE_S)[0].strip() for process in both}
    assert len(ids) == 1
    place("kill", ids.pop(), "--wait")


SCRIPT = """
import os, pathlib, signal, time
import burst.harness

with burst.harness.init() as context:
    length = context.max_batches(default=1)
    mark = pathlib.Path({mark!r})
    how = mark.read_text() if mark.exists() else ""
    if how:
        time.sleep(1.5)  # the record is written meanwhile
        mark.write_text("fail" if how == "kill" else "")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("the data is not there")
    saved = context.checkpoint.restore()
    for batch in range(saved.batches if saved else 0, length):
        loss = 0.5 if batch == 1 else 1.0
        context.train.report_validation_metrics(batch + 1, {{"validation_loss": loss}})
        time.sleep(0.02)
        if context.should_stop():
            context.checkpoint.save({{}}, batches=batch + 1)
            break
"""
EXPERIMENT = """
name: script
entrypoint: python train.py
searcher: {name: single, max_length: 100000ba}
resources: {slots: 1}
max_restarts: 1
"""


def test_a_script_that_dies_before_it_restores_keeps_its_progress_and_its_best(
    place: Place, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    (place.folder / "train.py").write_text(SCRIPT.format(mark=str(mark)))
    (place.folder / "exp.yaml").write_text(EXPERIMENT)
    place("run", "--detach")
    place.until("running", batches=3)
    place("pause", "latest", "--wait")
    paused = place.trial()
    assert paused["best"]["batches"] == 2

    mark.write_text("kill")  # and then it fails, which is once too often
    place("resume", "latest")
    place("wait", "latest", "--quiet", status=1)
    failed = place.trial()
    assert (failed["state"], mark.read_text()) == ("failed", "")
    assert (failed["batches"], failed["best"]) == (paused["batches"], paused["best"])
    assert "value=0.5\n" in place("report", "latest", "--env")
