"""A whole rehearsal, as a user runs it: machines are lost in earnest, and nothing else is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from burst.runner.rehearsal.ec2.prices import STEP_S, spot_price

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "train.py"
INTERVAL = 20
EMPTY = [f"us-east-1{letter}" for letter in "abcef"]
"""Zones without capacity, of six: the one that has some is the cheapest at no hour, so that others
are asked for first."""
FOUR = """
name: four
entrypoint: train:DigitsTrial
hyperparameters:
  lr: {type: categorical, vals: [0.001, 0.002, 0.004, 0.008]}
  channels: 8
  dropout: 0.1
  batch_size: 32
searcher: {name: grid, metric: validation_loss, max_length: 6ep}
validate: {every: 1ep}
checkpoints: {every: 20ba}
report_every: 10ba
environment: {variables: {OMP_NUM_THREADS: "1"}}
reproducibility: {experiment_seed: 42, mode: seeded}
resources: {slots_per_trial: 1}
"""


def run_burst(
    words: Sequence[str], folder: Path, *, status: int = 0
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "burst.cli", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout[-6000:] + done.stderr[-6000:]
    return done


def lines_of(text: str, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    return [line for line in found if line["type"] == kind]


def sums_of(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.suffix == ".safetensors"
    }


def without_dates(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in row.items() if key != "at"}
        for row in rows
        if row["group"] in ("training", "validation")
    ]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    shutil.copy(DIGITS, folder / "train.py")
    (folder / "exp.yaml").write_text(FOUR)
    return folder


def test_zones_without_capacity_are_asked_for_first_at_any_hour() -> None:
    zones = {*EMPTY, "us-east-1d"}
    for step in range(200):
        prices = {zone: spot_price(0.096, "c5.large", zone, step * STEP_S) for zone in zones}
        assert min(prices, key=prices.__getitem__) in EMPTY


@pytest.mark.slow
def test_four_trials_that_lose_three_machines_end_as_on_this_machine(work: Path) -> None:
    keep = work.parent / "kept"
    losses = ["--lose", "3", "--notice", "120s", "--notice", "none", "--notice", "120s"]
    capacity = [word for zone in EMPTY for word in ("--capacity", f"{zone}:0")]
    words = ["rehearse", "exp.yaml", *losses, *capacity, "--seed", "1", "--keep", str(keep)]
    rehearsed = run_burst([*words, "--json"], work).stdout

    (report,) = lines_of(rehearsed, "rehearsal")
    assert report["exit_code"] == 0
    assert (report["left"], report["unexplained"], report["unmade"]) == ([], [], 0)
    notices = [each["notice"] for each in report["recoveries"]]
    assert notices == [120.0, None, 120.0]
    for each in report["recoveries"]:
        if each["notice"] is None:
            assert each["resumed"] is not None
            # what lies between two checkpoints, and what trains while the newest one is uploaded,
            # which takes a busy machine longer than twenty of these tiny batches
            assert each["repeated"] <= 5 * INTERVAL
        else:  # a trial that ends within its notice needs no other machine
            assert each["repeated"] == 0, "with a notice no completed batch is lost"
    assert report["refused"]
    for refused in report["refused"]:
        assert refused.endswith("/c5.large: InsufficientInstanceCapacity")

    local = run_burst(["run", "exp.yaml", "--json"], work).stdout
    (result,) = lines_of(local, "result")
    for trial in result["trials"]:
        number = f"t{trial['number']:04d}"
        there = keep / "trials" / number
        here = work.parent / "here" / number
        run_burst(["checkpoint", "download", trial["checkpoint"], str(here)], work)
        assert sums_of(here)
        assert sums_of(there / "checkpoint") == sums_of(here)
        rows = json.loads(run_burst(["trial", "metrics", trial["id"], "--json"], work).stdout)
        kept = json.loads((there / "metrics.json").read_text())
        assert without_dates(kept) == without_dates(rows)


@pytest.mark.slow
def test_a_rehearsal_that_is_interrupted_leaves_nothing_behind(work: Path) -> None:
    command = [sys.executable, "-m", "burst.cli", "rehearse", "exp.yaml", "--json"]
    marked = {**os.environ, "REHEARSAL_TEST": str(work)}
    process = subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, text=True, env=marked)
    assert process.stdout is not None
    for line in process.stdout:
        if '"trial.running"' in line:
            break
    process.send_signal(signal.SIGTERM)  # SIGINT is ignored where tests run in the background
    process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 130
    left = [each for each in psutil.process_iter() if _is_of(each, str(work))]
    _, alive = psutil.wait_procs(left, timeout=20)
    assert not alive


def _is_of(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get("REHEARSAL_TEST") == mark
    except psutil.Error:
        return False


def test_what_cannot_be_read_is_refused_before_the_cloud_is_raised(work: Path) -> None:
    for words in (
        ["--notice", "soon"],
        ["--capacity", "many"],
        ["--capacity", "3@t+never"],
        ["--lose", "-1"],
    ):
        said = run_burst(["rehearse", "exp.yaml", *words], work, status=2).stderr
        assert words[0] in said
        assert "raising" not in said
    (work / "exp.yaml").write_text("nam: x\n")
    assert "nam" in run_burst(["rehearse", "exp.yaml"], work, status=3).stderr
