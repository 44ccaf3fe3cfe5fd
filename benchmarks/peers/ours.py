"""burst: the trial's process dies without a word, and a new one is started on the same folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.peers.problem import BATCH, LEARNING_RATE, SEED, STEPS, Network, Samples, digest
from burst.harness import (
    Batch,
    DataLoader,
    PyTorchTrial,
    PyTorchTrialContext,
    Trainer,
    pytorch_init,
)

DIE_AT = "BENCHMARK_DIE_AT"


class Trial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.network = Network()
        self.model = context.wrap_model(self.network)
        self.optimizer = context.wrap_optimizer(
            torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE)
        )

    def build_training_data_loader(self) -> DataLoader:
        hp = self.context.get_hparams()
        return DataLoader(
            Samples(hp["augment"]), batch_size=BATCH, shuffle=True, num_workers=hp["workers"]
        )

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(Samples(False), batch_size=BATCH)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> torch.Tensor:
        if str(batch_idx) == os.environ.get(DIE_AT):
            os._exit(9)
        loss: torch.Tensor = self.model(**batch)["loss"]
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return loss

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, torch.Tensor]:
        return {"validation_loss": self.model(**batch)["loss"]}


def run(folder: Path, *, augment: bool, workers: int, resume_at: int | None) -> str:
    state = folder / f"until-{resume_at}"
    if resume_at and DIE_AT not in os.environ:
        environment = {**os.environ, DIE_AT: str(resume_at)}
        died = subprocess.run(
            [sys.executable, "-m", "benchmarks.peers.one", *sys.argv[1:]],
            env=environment,
            check=False,
        )
        assert died.returncode == 9, "the first process was to die"
    hparams = {"augment": augment, "workers": workers}
    with pytorch_init(hparams=hparams, seed=SEED, folder=str(state)) as context:
        trial = Trial(context)
        Trainer(trial, context).fit(max_length=Batch(STEPS), checkpoint_period=Batch(5))
        return digest(trial.network)
