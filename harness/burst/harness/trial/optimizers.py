"""Optimizers, gradient accumulation, clipping and gradient scaling, in the order they must go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from burst.harness.errors import TrialError
from burst.harness.trial import given

ClipGrads = Callable[[Iterator[torch.nn.Parameter]], Any]


class WrappedOptimizer:
    """An optimizer, its steps so far, and the batches it accumulates gradients over."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, passes: int, frequency: int, average: bool
    ) -> None:
        self.optimizer = optimizer
        self.passes = passes
        self.frequency = frequency
        self.average = average
        self.steps = 0
        """Steps taken; one that a scaler skipped, because gradients overflowed, is none."""
        self.stepped = False
        """Whether the batch in progress has stepped."""
        optimizer.register_step_post_hook(self._after_step)

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        return (p for group in self.optimizer.param_groups for p in group["params"])

    def step(
        self, clip: ClipGrads | None, zero: bool, scaler: torch.amp.GradScaler | None
    ) -> None:
        """Average what was accumulated, unscale, clip, step, zero: in this order."""
        if self.average and self.frequency > 1:
            gradients = [p.grad for p in self.parameters() if p.grad is not None]
            torch._foreach_div_(gradients, float(self.frequency))
        if clip is not None:
            if scaler is not None:
                _unscale(scaler, self.optimizer)
            clip(self.parameters())
        if scaler is None:
            self.optimizer.step()
        else:
            scaler.step(self.optimizer)
        if zero:
            self.optimizer.zero_grad()

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        # Fused optimizers step whatever the scaler found, and skip inside when it is set.
        overflowed = getattr(optimizer, "found_inf", None)
        if overflowed is None or not overflowed.item():
            self.steps += 1
            self.stepped = True


def _unscale(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
    try:
        scaler.unscale_(optimizer)
    except RuntimeError as error:
        if "already been called" not in str(error):  # the trial did it by hand
            raise


class Optimizers:
    """All wrapped optimizers of a trial, in the order of wrapping."""

    def __init__(self, frequency: int, average: bool) -> None:
        self._frequency = frequency
        self._average = average
        self._wrapped: list[WrappedOptimizer] = []

    def add(
        self, optimizer: torch.optim.Optimizer, passes: int, average: bool | None
    ) -> torch.optim.Optimizer:
        mend = "self.optimizer = context.wrap_optimizer(SGD(self.model.parameters(), lr=0.1))"
        takes = "`wrap_optimizer` takes a torch.optim.Optimizer"
        given.instance(optimizer, torch.optim.Optimizer, takes, mend)
        given.at_least_one("backward_passes_per_step", passes)
        if any(wrapped.optimizer is optimizer for wrapped in self._wrapped):
            raise TrialError(
                f"this {type(optimizer).__name__} is wrapped already",
                why="its steps would be counted twice",
                mend="wrap it once, in `__init__`",
            )
        chosen = self._average if average is None else average
        self._wrapped.append(WrappedOptimizer(optimizer, passes, self._frequency, chosen))
        return optimizer

    def __iter__(self) -> Iterator[WrappedOptimizer]:
        return iter(self._wrapped)

    def __len__(self) -> int:
        return len(self._wrapped)

    @property
    def frequency(self) -> int:
        return self._frequency

    def find(self, optimizer: torch.optim.Optimizer) -> WrappedOptimizer:
        for wrapped in self._wrapped:
            if wrapped.optimizer is optimizer:
                return wrapped
        raise TrialError(
            f"this {type(optimizer).__name__} was not wrapped",
            why="only optimizers that were handed over are stepped and saved",
            mend="self.optimizer = context.wrap_optimizer(optimizer), in __init__",
        )

    def start_batch(self) -> None:
        for wrapped in self._wrapped:
            wrapped.stepped = False
