"""Starts the launcher as an agent does, on a small code folder, and collects what it left."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burst.core.config.experiment import ExperimentConfig
from burst.core.launch import LaunchSpec, Outcome, StopFlag, failures_left
from burst.core.metrics import merge
from burst.core.model import Allocation, Code, Experiment, Failure, Trial
from burst.core.store import open_store, update
from burst.core.store.port import Put
from burst.runner.agent.ends.causes import first_cause

EXPERIMENT = "exp-1m3k9zq4w7c"
TRIAL = f"{EXPERIMENT}.t0000"

TRIAL_CODE = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
from burst.harness import DataLoader, InvalidHP, PyTorchTrial
from burst.runner.agent.ends.causes import first_cause

class Tiny(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        layers = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 1))
        self.model = context.wrap_model(layers)
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.01))

    def build_training_data_loader(self):
        size = self.context.get_per_slot_batch_size()
        return DataLoader(TensorDataset(torch.ones(32, 4)), batch_size=size, shuffle=True)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch[0]).square().mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return loss

    def evaluate_batch(self, batch, batch_idx):
        return {"validation_loss": self.model(batch[0]).square().mean()}
"""


@dataclass
class Ended:
    status: int
    seconds: float
    outcome: Outcome | None
    failure: Failure | None
    logs: dict[int, str]
    trial: Trial
    rows: dict[str, list[tuple[int, dict[str, float]]]] = field(default_factory=dict)


class Site:
    """A store, blobs and allocation folders under one temporary folder."""

    def __init__(self, folder: Path, code: str, entrypoint: Any = "train:Tiny", **config: Any):
        self.folder = folder
        self.code = textwrap.dedent(code)
        raw = {
            "name": "x",
            "entrypoint": entrypoint,
            "hyperparameters": {"lr": 0.5, "global_batch_size": 8, "net": {"width": 3}},
            "searcher": {"name": "single", "max_length": "8ba"},
            "report_every": "2ba",
            "reproducibility": {"experiment_seed": 1},
            **config,
        }
        self.config = ExperimentConfig.model_validate(raw)
        self.store = open_store(f"sqlite://{folder / 'store.db'}")
        self.attempts = 0
        code_ = Code(digest="", size=0)
        self.store.commit(
            Put(
                Experiment(
                    id=EXPERIMENT, name="x", owner="", created=0, state_since=0, config={},
                    code=code_,
                )
            ),
            Put(
                Trial(
                    id=TRIAL, experiment=EXPERIMENT, number=0, seed=3, slots=1, pools=("local",),
                    created=0, queued=0, state_since=0,
                )
            ),
        )  # fmt: skip

    def prepare(self, ranks: int = 1) -> LaunchSpec:
        """The next attempt, as an agent has it before it starts anything."""
        self.attempts += 1
        n = self.attempts
        update(self.store, Trial, TRIAL, lambda t: t.model_copy(update={"token": n}))
        allocation = f"alloc-1m3k9zq4w7{n}"
        self.store.commit(
            Put(
                Allocation(
                    id=allocation, trial=TRIAL, experiment=EXPERIMENT, pool="local", attempt=n,
                    token=n, shares=(), created=0, state_since=0,
                )
            )
        )  # fmt: skip
        spec = LaunchSpec(
            folder=str(self.folder / f"a{n}"),
            store_url=self.store.url,
            blobs_url=f"file://{self.folder}/blobs",
            checkpoints_url=f"file://{self.folder}/blobs",
            experiment=EXPERIMENT,
            trial=TRIAL,
            allocation=allocation,
            node="node-1m3k9zq4w7c",
            attempt=n,
            token=n,
            hparams=self.config.hyperparameters,
            seed=3,
            config=self.config.model_dump(mode="json"),
            ranks_per_node=ranks,
            devices=("cpu",) * ranks,
        )
        spec.write()
        (spec.path / "code" / "train.py").write_text(self.code)
        return spec

    def start(self, ranks: int = 1) -> tuple[LaunchSpec, subprocess.Popen[bytes]]:
        spec = self.prepare(ranks)
        log = (spec.path / "logs" / "launcher.log").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "burst.harness.launch"],
            env={**os.environ, "BURST_LAUNCH": str(spec.path / "spec.json")},
            start_new_session=True,
            stdout=log,
            stderr=log,
        )
        log.close()
        return spec, process

    def finish(self, spec: LaunchSpec, process: subprocess.Popen[bytes]) -> Ended:
        begun = time.monotonic()
        status = process.wait(timeout=120)
        logs = {
            int(p.stem.removeprefix("rank")): p.read_text()
            for p in (spec.path / "logs").glob("rank*.log")
        }
        merged = merge(self.store.metrics(TRIAL))
        return Ended(
            status=status,
            seconds=time.monotonic() - begun,
            outcome=Outcome.read(spec.path),
            failure=first_cause(failures_left(spec.path).values()),
            logs=logs,
            trial=self.store.get(Trial, TRIAL),
            rows={g: [(r.batches, dict(r.metrics)) for r in rows] for g, rows in merged.items()},
        )

    def run(self, ranks: int = 1) -> Ended:
        return self.finish(*self.start(ranks))

    def flag(self, spec: LaunchSpec) -> StopFlag:
        return StopFlag(spec.path / "stop")
