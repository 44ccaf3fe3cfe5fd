"""What a state is taken from and put back into, whoever made it: a trial's context, or the parts
that a Trainer of transformers has put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch

from burst.harness.distributed import DistributedContext
from burst.harness.trial.lr_scheduler import LRScheduler
from burst.harness.trial.models import Models
from burst.harness.trial.optimizers import Optimizers, WrappedOptimizer
from burst.harness.trial.reducers import WrappedReducer


class Held(Protocol):
    """The objects that hold a training's state."""

    distributed: DistributedContext
    models: Models
    optimizers: Optimizers
    schedulers: list[tuple[LRScheduler, WrappedOptimizer]]
    scalers: list[torch.amp.GradScaler]
    reducers: list[WrappedReducer]
    tokenizer_files: dict[str, bytes]
    """By name: kept in checkpoints for those who load the model elsewhere."""
    batch: int
    """Batches trained so far."""
    initial_batch: int
    """Those that this process began with."""
    stop_requested: bool
    """Whether the code that is trained asked for an early end."""


class Sums(Protocol):
    """What each rank has added up since it reported last."""

    def state(self) -> dict[str, Any]: ...

    def load_state(self, state: Mapping[str, Any], /) -> None: ...

    def add_state(self, state: Mapping[str, Any], /) -> None:
        """Take over what a rank that is gone had added up."""
        ...


class Position(Protocol):
    """Where in its data a rank is."""

    def state(self) -> Any: ...

    def load_state(self, state: Any, /) -> None: ...
