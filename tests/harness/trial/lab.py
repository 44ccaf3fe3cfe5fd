"""A tiny trial with everything that could make two runs differ, and a place to run it in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from burst.core.checkpoints.tiers.places import Tiers
from burst.core.clock import ManualClock
from burst.core.config.experiment import Optimizations
from burst.core.launch import Outcome, Tier
from burst.core.metrics import merge
from burst.core.model import Code, Experiment, Trial
from burst.core.store import update
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Put, Store
from burst.harness import (
    Batch,
    DataLoader,
    Epoch,
    LRScheduler,
    PyTorchCallback,
    PyTorchTrial,
    PyTorchTrialContext,
    Trainer,
)
from burst.harness.checkpoints.engine import BlobCheckpointEngine, Identity
from burst.harness.chunks import Origin
from burst.harness.determinism import seed_all
from burst.harness.distributed import DistributedContext, Place
from burst.harness.progress import Progress, StoreSink
from burst.harness.reporting import Reporter
from burst.harness.session import Session
from burst.harness.trial.context import Setting
from tests.harness.checkpoints.support import Patient

EXPERIMENT = "exp-1m3k9zq4w7c"
TRIAL = f"{EXPERIMENT}.t0000"
ROWS, BATCH = 22, 4
EPOCH = 6
"""Batches: five whole ones and a short one."""


class Noisy(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Rows that are augmented with noise from the global generator, as people do."""

    def __init__(self, rows: int = ROWS) -> None:
        generator = torch.Generator().manual_seed(5)
        self.x = torch.randn(rows, 6, generator=generator)
        self.y = self.x.sum(dim=1, keepdim=True)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[index] + 0.1 * torch.randn(6), self.y[index]


class Counting(PyTorchCallback):
    def __init__(self) -> None:
        self.epochs = 0
        self.averages: list[float] = []

    def on_training_epoch_start(self, epoch_idx: int) -> None:
        self.epochs += 1

    def on_training_workload_end(
        self, avg_metrics: dict[str, Any], batch_metrics: list[dict[str, Any]]
    ) -> None:
        self.averages += [batch["loss"] for batch in batch_metrics]

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs, "averages": list(self.averages)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epochs, self.averages = state_dict["epochs"], list(state_dict["averages"])


class TinyTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(self.net())
        self.optimizer = context.wrap_optimizer(
            torch.optim.AdamW(self.model.parameters(), lr=context.get_hparam("lr"))
        )
        for scheduler, mode in (
            (torch.optim.lr_scheduler.MultiStepLR, LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP),
            (torch.optim.lr_scheduler.ExponentialLR, LRScheduler.StepMode.STEP_EVERY_EPOCH),
        ):
            argument: Any = [2, 4] if mode.name.endswith("STEP") else 0.5
            context.wrap_lr_scheduler(scheduler(self.optimizer, argument), mode)
        self.largest = context.wrap_reducer(max, name="largest", for_validation=False)
        self.callback = Counting()

    def net(self) -> nn.Module:
        return nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1)
        )

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(
            Noisy(),
            batch_size=self.context.get_per_slot_batch_size(),
            shuffle=True,
            num_workers=self.context.get_hparam("workers"),
        )

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(Noisy(9), batch_size=4)

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        return {"counting": self.callback}

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        loss = nn.functional.mse_loss(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(
            self.optimizer, clip_grads=lambda p: nn.utils.clip_grad_norm_(p, 1.0)
        )
        self.largest.update(loss.item())
        return {"loss": loss}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        return {"validation_loss": nn.functional.mse_loss(self.model(x), y)}


HPARAMS = {"lr": 0.01, "workers": 0, "global_batch_size": BATCH}


@dataclass
class Result:
    outcome: Outcome
    trial: Any
    context: PyTorchTrialContext
    state: dict[str, bytes]
    """Every tensor and number at the end, as bytes to compare."""


class Lab:
    """One trial's store and blobs, and attempts at it, one after the other."""

    def __init__(self, folder: Path, *, background: bool = False) -> None:
        """`background`: let saves go on while training does, as they do in earnest."""
        self._engine = BlobCheckpointEngine if background else Patient
        self.store: Store = MemoryStore()
        self.clock = ManualClock()
        self.tiers = Tiers([Tier(url=f"file://{folder}")], "node-1", self.clock)
        self.blobs = self.tiers.first
        self._attempts = itertools.count(1)
        now = self.clock.now()
        code = Code(digest="", size=0)
        self.store.commit(
            Put(
                Experiment(
                    id=EXPERIMENT, name="x", owner="", created=now, config={}, code=code,
                    state_since=now,
                )
            ),
            Put(
                Trial(
                    id=TRIAL, experiment=EXPERIMENT, number=0, seed=1, slots=1, pools=("local",),
                    created=now, queued=now, state_since=now,
                )
            ),
        )  # fmt: skip

    def session(self, asked: Callable[[], bool]) -> Session:
        attempt = next(self._attempts)
        # What a killed attempt had begun to save goes on here, and may write to the trial still.
        update(self.store, Trial, TRIAL, lambda trial: trial.model_copy(update={"token": attempt}))
        progress = Progress(self.clock)
        sink = StoreSink(self.store, TRIAL, attempt, progress)
        identity = Identity(EXPERIMENT, TRIAL, attempt, attempt)
        gang = DistributedContext(Place())
        return Session(
            distributed=gang,
            progress=progress,
            reporter=Reporter(sink, Origin(TRIAL, attempt), self.clock),
            engine=self._engine(self.store, self.tiers, identity, gang, self.clock),
            asked=asked,
            clock=self.clock,
            experiment=EXPERIMENT,
            trial=TRIAL,
        )

    def attempt(
        self,
        trial_class: type[PyTorchTrial] = TinyTrial,
        *,
        leave_after: int | None = None,
        frequency: int = 2,
        hparams: dict[str, Any] | None = None,
        **fit: Any,
    ) -> Result:
        """Run until the end, or until the stop flag is set after `leave_after` batches."""
        session = self.session(lambda: context.batch == leave_after)
        setting = Setting(
            hparams={**HPARAMS, **(hparams or {})},
            experiment=EXPERIMENT,
            trial=TRIAL,
            seed=1,
            optimizations=Optimizations(aggregation_frequency=frequency),
        )
        seed_all(1)
        context = PyTorchTrialContext(setting, session)
        trial = trial_class(context)
        arguments = {
            "max_length": Epoch(2),
            "validation_period": Epoch(1),
            "reporting_period": Batch(5),
            "checkpoint_policy": "none",
            **fit,
        }
        try:
            outcome = Trainer(trial, context).fit(**arguments)
        except BaseException:
            session.reporter.end_soon()  # type: ignore[union-attr]
            raise
        session.close()
        return Result(outcome, trial, context, dict(_leaves("", _ending(trial, context))))

    def rows(self, group: str) -> list[tuple[int, dict[str, float]]]:
        """The metric rows that a reader of the store sees."""
        chunks = self.store.metrics(TRIAL, group)
        return [(row.batches, dict(row.metrics)) for row in merge(chunks)[group]]


def _ending(trial: Any, context: PyTorchTrialContext) -> dict[str, Any]:
    return {
        "models": [model.state_dict() for model in context.models],
        "optimizers": [wrapped.optimizer.state_dict() for wrapped in context.optimizers],
        "schedulers": [s.scheduler.state_dict() for s, _ in context.schedulers],
        "callback": trial.callback.state_dict(),
        "random": torch.rand(3),
    }


def _leaves(path: str, value: Any) -> Iterator[tuple[str, bytes]]:
    if isinstance(value, torch.Tensor):
        yield path, value.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(f"{path}.{index}", item)
    else:
        yield path, repr(value).encode()
