"""A learning-rate scheduler and when it steps."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from burst.harness.errors import TrialError

if TYPE_CHECKING:
    import torch


class StepMode(Enum):
    STEP_EVERY_EPOCH = 1
    STEP_EVERY_BATCH = 2
    STEP_EVERY_OPTIMIZER_STEP = 3
    MANUAL_STEP = 4


_Mode = StepMode


class LRScheduler:
    """Wraps a torch scheduler so that the loop steps it; `context.wrap_lr_scheduler` makes one.

    With gradient accumulation `STEP_EVERY_BATCH` still steps after every batch, and
    `STEP_EVERY_OPTIMIZER_STEP` after every batch that ended in an optimizer step. A step that a
    GradScaler skipped, because gradients overflowed, is not an optimizer step.
    """

    StepMode = StepMode

    def __init__(
        self, scheduler: torch.optim.lr_scheduler.LRScheduler, step_mode: _Mode, frequency: int
    ) -> None:
        """`frequency`: step at every so many of what `step_mode` counts."""
        if not isinstance(step_mode, StepMode):
            modes = ", ".join(f"LRScheduler.StepMode.{mode.name}" for mode in StepMode)
            raise TrialError(
                f"{step_mode!r:.60} is not a step mode",
                why="it says what a step of the scheduler counts",
                mend=f"use one of {modes}",
            )
        if not isinstance(frequency, int) or frequency < 1:
            raise TrialError(
                f"a scheduler cannot step every {frequency!r:.60} times",
                why="`frequency` counts, from 1 on",
                mend="leave it out, or write a whole number, such as frequency=2",
            )
        self._scheduler = scheduler
        self._mode = step_mode
        self._frequency = frequency

    @property
    def scheduler(self) -> Any:
        return self._scheduler

    def step(self, *args: Any, **kwargs: Any) -> None:
        """Step by hand, for `MANUAL_STEP`."""
        self._scheduler.step(*args, **kwargs)

    def get_last_lr(self) -> list[Any]:
        return list(self._scheduler.get_last_lr())

    def after_batch(self, batches: int, steps: int, stepped: bool) -> None:
        """Called by the loop after batch number `batches` (from 1) and, if `stepped`, after this
        scheduler's optimizer made its step number `steps`."""
        by_batch = self._mode is StepMode.STEP_EVERY_BATCH and batches % self._frequency == 0
        by_step = (
            self._mode is StepMode.STEP_EVERY_OPTIMIZER_STEP
            and stepped
            and steps % self._frequency == 0
        )
        if by_batch or by_step:
            self._scheduler.step()

    def after_epoch(self, epochs: int) -> None:
        """Called by the loop after epoch number `epochs` (from 1)."""
        if self._mode is StepMode.STEP_EVERY_EPOCH and epochs % self._frequency == 0:
            self._scheduler.step()
