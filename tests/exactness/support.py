"""A folder with an example's trial that interrupts itself at chosen batches, and burst on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from burst.core.checkpoints.format.manifest import Manifest
from burst.core.metrics import merge
from burst.core.model import Checkpoint, Experiment, Trial
from burst.core.states import TrialState, is_terminal
from burst.core.workspace import Workspace, open_workspace

T = TypeVar("T")

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

INTERRUPTED = '''
"""{base} of the example, ended or paused where files in $INTERRUPTIONS say so, each once."""

import os, random, signal, subprocess, sys
from pathlib import Path

import numpy as np
import torch

from burst.harness import DataLoader
from train import {base}


def jitter(rows):
    """Noise from all three global generators: what augmentation in user code looks like."""
    for name, column in rows.items():
        if name in ("image",):
            noise = 0.01 * torch.randn(np.shape(column)).numpy()
            noise += np.random.normal(0, 0.01, np.shape(column)) + random.gauss(0, 0.01)
            rows[name] = torch.as_tensor(np.asarray(column) + noise, dtype=torch.float32)
        else:
            rows[name] = torch.as_tensor(np.asarray(column))
    return rows


class Interrupted({base}):
    def build_training_data_loader(self):
        plain = super().build_training_data_loader()
        return DataLoader(
            plain.dataset.with_transform(jitter),
            batch_size=self.context.get_per_slot_batch_size(),
            shuffle=True,
            drop_last=True,
            num_workers=int(os.environ["WORKERS"]),
        )

    def train_batch(self, batch, epoch_idx, batch_idx):
        ranks = self.context.distributed
        folder = Path(os.environ["INTERRUPTIONS"])
        kill, pause = folder / f"kill-{{batch_idx}}", folder / f"pause-{{batch_idx}}"
        if ranks.rank == ranks.size - 1 and kill.exists():
            kill.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if ranks.rank == 0 and pause.exists():
            pause.unlink()
            burst = [sys.executable, "-m", "burst.cli"]
            subprocess.run([*burst, "pause", str(self.context.get_trial_id())], check=True)
        return super().train_batch(batch, epoch_idx, batch_idx)
'''


@dataclass(frozen=True)
class Ending:
    """What must be equal however often a run was interrupted."""

    tensors: tuple[str, ...]
    """SHA-256 of every tensor file of the last checkpoint: parameters and optimizer state."""
    validations: tuple[tuple[int, str], ...]
    training: tuple[tuple[int, str], ...]


@dataclass
class Bench:
    """One BURST_HOME and one code folder."""

    home: Path
    code: Path
    entrypoint: str = "interrupted:Interrupted"
    patience: float = 280
    """Seconds for one command."""

    @classmethod
    def of_example(cls, name: str, base: str, folder: Path) -> Bench:
        code = folder / "code"
        shutil.copytree(EXAMPLES / name, code, ignore=shutil.ignore_patterns("__pycache__"))
        (code / "interrupted.py").write_text(INTERRUPTED.format(base=base))
        (folder / "interruptions").mkdir()
        return cls(folder / "home", code)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "BURST_HOME": str(self.home), "NO_COLOR": "1"}

    def burst(self, *arguments: str) -> str:
        """What `burst …` prints on standard output; an error is a failure of the test."""
        done = subprocess.run(
            [sys.executable, "-m", "burst.cli", *arguments],
            env=self.environment,
            cwd=self.code,
            capture_output=True,
            text=True,
            timeout=self.patience,
            check=False,
        )
        assert done.returncode == 0, f"burst {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run(self, settings: Iterable[str], interruptions: Iterable[str] = ()) -> Ending:
        """Run the experiment to its end, resuming it whenever it has paused itself."""
        planned = list(interruptions)
        marks = self.code.parent / "interruptions"
        for name in planned:
            (marks / name).touch()
        settings = [
            f"entrypoint={self.entrypoint}",
            f"environment.variables.INTERRUPTIONS={marks}",
            *settings,
        ]
        flags = [part for setting in settings for part in ("--set", setting)]
        self.burst("run", "exp.yaml", "--detach", *flags)
        workspace = open_workspace(self.environment, self.code)
        with closing(workspace.store):
            trial = self._finish(workspace)
            assert trial.state is TrialState.COMPLETED, trial.failure
            assert list(marks.iterdir()) == [], "an interruption was never reached"
            assert trial.restarts == sum(name.startswith("kill") for name in planned)
            return ending(workspace, trial)

    def _finish(self, workspace: Workspace) -> Trial:
        def settled() -> Trial | None:
            (experiment,) = workspace.store.children(Experiment, "")
            trials = workspace.store.children(Trial, experiment.id)
            over = [t for t in trials if is_terminal(t.state) or t.state is TrialState.PAUSED]
            return over[0] if over else None

        while True:
            trial = wait_for(settled, "the trial to pause or end")
            if is_terminal(trial.state):
                return trial
            self.burst("resume", trial.id)


def ending(workspace: Workspace, trial: Trial) -> Ending:
    """The last checkpoint's tensors and the metrics, without times."""
    record = workspace.store.get(Checkpoint, trial.checkpoint)
    manifest = Manifest.decode(workspace.blobs.get(record.manifest))
    groups = merge(workspace.store.metrics(trial.id))

    def rows(group: str) -> tuple[tuple[int, str], ...]:
        return tuple(
            (row.batches, json.dumps(dict(sorted(row.metrics.items()))))
            for row in groups.get(group, ())
        )

    return Ending(
        tuple(entry.sha256 for entry in manifest.tensors), rows("validation"), rows("training")
    )


def wait_for(look: Callable[[], T | None], what: str, seconds: float = 240.0) -> T:
    """Looks until there is something to see; real processes are at work, so it has to wait."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = look()
        if found is not None:
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited {seconds:.0f} s for {what}")
