"""A Trainer's model, optimizer, scheduler and scaler, as a trial's state is taken from them
(`burst.harness.trial.held.Held`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from burst.harness.distributed import DistributedContext
from burst.harness.errors import TrialError
from burst.harness.transformers.trainer.extras import Extras
from burst.harness.transformers.trainer.folders import BestFolder
from burst.harness.trial.exports import tokenizer_files
from burst.harness.trial.lr_scheduler import LRScheduler, StepMode
from burst.harness.trial.model_state import ModelState
from burst.harness.trial.models import Models
from burst.harness.trial.optimizers import Optimizers, WrappedOptimizer
from burst.harness.trial.reducers import WrappedReducer
from burst.harness.trial.state import TrialState


class Parts:
    """Made once the Trainer has wrapped what it trains."""

    def __init__(self, trainer: Any, distributed: DistributedContext) -> None:
        self.distributed = distributed
        self.models = Models()
        self.optimizers = Optimizers(1, False)
        self.schedulers: list[tuple[LRScheduler, WrappedOptimizer]] = []
        self.scalers: list[torch.amp.GradScaler] = []
        self.reducers: list[WrappedReducer] = []
        self.tokenizer_files = files_of(trainer)
        self.batch = self.initial_batch = int(trainer.state.global_step)
        self.stop_requested = False
        self.models.add(trainer.model)
        optimizer = torch_optimizer(trainer.optimizer)
        self.optimizers.add(optimizer, 1, False)
        scheduler = LRScheduler(trainer.lr_scheduler, StepMode.MANUAL_STEP, 1)
        self.schedulers.append((scheduler, self.optimizers.find(optimizer)))
        scaler = getattr(trainer.accelerator, "scaler", None)
        if scaler is not None:
            self.scalers.append(scaler)


def torch_optimizer(optimizer: Any) -> torch.optim.Optimizer:
    """The optimizer itself, without accelerate's wrapping."""
    while type(optimizer).__module__.startswith("accelerate."):
        optimizer = optimizer.optimizer
    found: torch.optim.Optimizer = optimizer
    return found


def files_of(trainer: Any) -> dict[str, bytes]:
    """What the tokenizer, or whatever else prepares the Trainer's data, writes beside a model."""
    collator = getattr(trainer, "data_collator", None)
    found = trainer.processing_class or getattr(collator, "tokenizer", None)
    if found is None:
        return {}
    try:
        return tokenizer_files(found)
    except TrialError:  # of a class of the script's own, which need not write files
        return {}


def data_of(loader: Any) -> str:
    """Names the training data, to notice at resume that they are others. Not by their content: a
    Hugging Face data set has another fingerprint in every process where what made it cannot be
    hashed."""
    data = getattr(loader, "dataset", loader)
    rows = f" of {len(data)} rows" if hasattr(data, "__len__") else ""
    return f"{type(data).__name__}{rows}"


@dataclass
class TrainerState(TrialState):
    """A trial's state, with what only a Trainer has. Its own half can be that of a moment before:
    of the boundary that an evaluation was left in the middle of."""

    trainer: Any = None
    frozen: dict[str, Any] | None = None
    """What of `own` is to be saved in place of what there is now."""

    def __post_init__(self) -> None:
        self.best = BestFolder(self.trainer)
        self.extras = Extras(self.trainer)

    def own(self, models: Sequence[ModelState]) -> dict[str, Any]:
        found = {"best": self.best.state(), "extras": self.extras.state()}
        return {**super().own(models), **found, **(self.frozen or {})}

    def load_own(self, state: Mapping[str, Any], *, gradients: bool = True) -> None:
        super().load_own(state, gradients=gradients)
        self.best.load_state(state["best"])
        self.extras.load_state(state["extras"])
