"""Untouched scripts of Hugging Face end equal to themselves run alone, whatever befalls them."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from burst.core.checkpoints.format.manifest import Manifest
from burst.core.model import Checkpoint, Experiment, Trial
from burst.core.states import TrialState
from burst.core.workspace import open_workspace
from tests.exactness.support import EXAMPLES, Bench

INTERRUPTED = '''
"""Runs a script that knows nothing of it, ended or paused before the steps that files in
$INTERRUPTIONS name, each once; what the script leaves is then copied to $LEFT."""

import os, runpy, shutil, signal, subprocess, sys
from pathlib import Path

from transformers import Trainer

plain = Trainer.training_step


def training_step(self, *arguments, **named):
    folder = Path(os.environ["INTERRUPTIONS"])
    step = self.state.global_step
    kill, pause = folder / f"kill-{step}", folder / f"pause-{step}"
    if kill.exists():
        kill.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    if pause.exists():
        pause.unlink()
        burst = [sys.executable, "-m", "burst.cli"]
        subprocess.run([*burst, "pause", os.environ["BURST_TRIAL"]], check=True)
    return plain(self, *arguments, **named)


Trainer.training_step = training_step
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
shutil.copytree("output", os.environ["LEFT"])
'''
TIMES = ("runtime", "per_second", "flos")


@dataclass(frozen=True)
class Script:
    """An example's script, made short by its own arguments."""

    folder: str
    command: tuple[str, ...]
    weights: str
    interruptions: tuple[str, ...]

    def copied(self, to: Path, file: str = "exp.yaml") -> Path:
        code = to / "code"
        shutil.copytree(EXAMPLES / self.folder, code, ignore=shutil.ignore_patterns("__pycache__"))
        if file != "exp.yaml":
            (code / file).rename(code / "exp.yaml")
        return code

    def entrypoint(self, *before: str) -> str:
        return json.dumps(["python", *before, *self.command])


SCRIPTS = {
    "classifier": Script(
        "hf_classifier",
        ("train.py", "--epochs", "2"),
        "model.safetensors",
        ("pause-37", "kill-120", "pause-171"),
    ),
    "causal_lm": Script(
        "hf_causal_lm",
        ("train.py", "--context", "64", "--max_steps", "44", "--logging_steps", "4",
         "--eval_steps", "15", "--save_steps", "18"),
        "model.safetensors",
        ("pause-7", "kill-24", "pause-30"),
    ),
    "lora": Script(
        "hf_causal_lm",
        ("lora.py", "--max_steps", "40", "--logging_steps", "4", "--eval_steps", "15",
         "--save_steps", "11"),
        "adapter_model.safetensors",
        ("pause-15", "kill-19", "pause-31"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Script], Path]:
    """Runs a script as `python train.py` does, once; gives the folder that it leaves."""

    @functools.cache
    def left(script: Script) -> Path:
        code = script.copied(tmp_path_factory.mktemp("alone"))
        done = subprocess.run(
            [sys.executable, *script.command],
            cwd=code,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
        return code / "output"

    return left


def history(left: Path) -> list[dict[str, Any]]:
    """Everything that the Trainer logged but how long it took."""
    rows = json.loads((left / "trainer_state.json").read_text())["log_history"]
    return [
        {name: value for name, value in row.items() if not name.endswith(TIMES)} for row in rows
    ]


def logged(bench: Bench, group: str) -> list[tuple[int, dict[str, float]]]:
    """What burst has of it."""
    rows = json.loads(bench.burst("trial", "metrics", "latest.t0", "--group", group, "--json"))
    return [
        (row["batches"], {n: v for n, v in row["metrics"].items() if not n.endswith(TIMES)})
        for row in rows
    ]


def same_values(rows: Sequence[tuple[int, dict[str, float]]], told: list[dict[str, Any]]) -> bool:
    """Whether burst was told what the Trainer logged, at the same steps."""
    at: dict[int, dict[str, float]] = {}
    for row in told:
        at.setdefault(row["step"], {}).update({n: v for n, v in row.items() if n != "step"})
    return dict(rows) == at


def newest(bench: Bench) -> tuple[Trial, Manifest]:
    """The one trial of a bench, and what its newest checkpoint is made of."""
    workspace = open_workspace(bench.environment, bench.code)
    with closing(workspace.store):
        (experiment,) = workspace.store.children(Experiment, "")
        (trial,) = workspace.store.children(Trial, experiment.id)
        record = workspace.store.get(Checkpoint, trial.checkpoint)
        return trial, Manifest.decode(workspace.blobs.get(record.manifest))


def written_by(manifest: Manifest) -> int:
    """Bytes of tensors that this checkpoint wrote, and no earlier one had written."""
    return sum(each.size for each in manifest.tensors if f"/{manifest.id}/" in each.key)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_is_paused_and_killed_ends_as_it_does_alone(
    name: str, alone: Callable[[Script], Path], tmp_path: Path
) -> None:
    script = SCRIPTS[name]
    expected = alone(script)

    folder = tmp_path / "burst"
    code = script.copied(folder, "lora.yaml" if name == "lora" else "exp.yaml")
    (code / "interrupted.py").write_text(INTERRUPTED)
    (folder / "interruptions").mkdir()
    bench = Bench(folder / "home", code, script.entrypoint("interrupted.py"))
    left = folder / "left"
    bench.run([f"environment.variables.LEFT={left}"], script.interruptions)

    weights = (expected / script.weights).read_bytes()
    assert (left / script.weights).read_bytes() == weights
    bench.burst("checkpoint", "download", "latest.t0", str(folder / "downloaded"))
    assert (folder / "downloaded" / script.weights).read_bytes() == weights
    assert history(left) == history(expected)
    told = history(expected)
    assert same_values(logged(bench, "validation"), [r for r in told if "eval_loss" in r])
    assert same_values(logged(bench, "training"), [r for r in told if "eval_loss" not in r])
    if name == "lora":
        check_that_the_base_was_written_once(newest(bench)[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_loses_two_machines_ends_as_it_does_alone(
    name: str, alone: Callable[[Script], Path], tmp_path: Path
) -> None:
    script = SCRIPTS[name]
    expected = alone(script)

    folder = tmp_path / "burst"
    code = script.copied(folder, "lora.yaml" if name == "lora" else "exp.yaml")
    bench = Bench(folder / "home", code, patience=900)
    kept = folder / "kept"
    settings = [f"entrypoint={script.entrypoint()}", "checkpoints.every=10ba"]
    words = ["rehearse", "exp.yaml", *(w for setting in settings for w in ("--set", setting))]
    # the seed's losses come early, or a quick machine would be done before the second
    losses = ["--lose", "2", "--notice", "120s", "--notice", "none", "--seed", "4"]
    told = bench.burst(*words, *losses, "--keep", str(kept), "--json")
    report = json.loads(told.splitlines()[-1])
    assert report["exit_code"] == 0
    assert [each["notice"] for each in report["recoveries"]] == [120.0, None]
    assert (report["left"], report["unexplained"]) == ([], [])
    there = kept / "trials" / "t0000" / "checkpoint" / script.weights
    assert there.read_bytes() == (expected / script.weights).read_bytes()


def check_that_the_base_was_written_once(manifest: Manifest) -> None:
    """The model has 213,000 weights and 20,000 in adapters, which Adam has two more of each."""
    total = sum(each.size for each in manifest.tensors)
    assert total > 1_000_000
    assert 0 < written_by(manifest) < 400_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "file", "metrics"),
    [
        ("hf_classifier", "trial.yaml", {"validation_loss", "accuracy"}),
        ("hf_causal_lm", "trial.yaml", {"validation_loss", "perplexity"}),
        ("hf_causal_lm", "lora_trial.yaml", {"validation_loss", "perplexity"}),
    ],
)
def test_the_same_task_trains_as_a_trial(
    folder: str, file: str, metrics: set[str], tmp_path: Path
) -> None:
    code = Script(folder, (), "", ()).copied(tmp_path)
    bench = Bench(tmp_path / "home", code)
    lengths = ["searcher.max_length=24ba", "validate.every=12ba", "checkpoints.every=12ba"]
    bench.burst("run", file, "--follow", *(w for each in lengths for w in ("--set", each)))
    trial, manifest = newest(bench)
    assert trial.state is TrialState.COMPLETED
    validations = logged(bench, "validation")
    assert [at for at, _ in validations] == [12, 24]
    assert all(set(row) == metrics for _, row in validations)
    assert validations[1][1]["validation_loss"] < validations[0][1]["validation_loss"]
    if file == "lora_trial.yaml":
        check_that_the_base_was_written_once(manifest)
