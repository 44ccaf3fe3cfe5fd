"""From `train()` to the first step of a Trainer that goes on, by burst and by itself, early in an
epoch and late in it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback, set_seed

from benchmarks.trainer_scripts.scripts import arguments, connected, trainer_of

ROWS = 1_000_000
BATCH = 8
ROUNDS = 5


class Numbers(torch.utils.data.Dataset[Any]):
    """Rows that cost nothing, so that what is measured is the way to them."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> int:
        return index


class OneParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, values: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (values * self.weight).square().mean()}


def collate(rows: list[int]) -> dict[str, torch.Tensor]:
    return {"values": torch.tensor(rows, dtype=torch.float32) / ROWS}


def first_steps(step: int, folder: Path) -> Iterator[tuple[float, float]]:
    """Seconds from `train()` to the end of the first step after batch `step`: by burst, and by the
    Trainer itself, in turns. Both go on from where one training was lost, saved by both."""
    _lost(step, folder)
    own = folder / "out" / f"checkpoint-{step}"
    while True:
        yield _resumed(step, folder, None), _resumed(step, folder, own)


class _Lost(BaseException):
    """The process ends without a word."""


class _Leaves(TrainerCallback):
    def __init__(self, at: int) -> None:
        self._at = at
        self.seen = SimpleNamespace(first=0.0)
        """When the first step ended. No plain number, which the next attempt would go on with."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._at:
            raise _Lost

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.seen.first = self.seen.first or time.perf_counter()


def _lost(step: int, folder: Path) -> None:
    """Go through so many steps, save as burst and as the Trainer does, and be lost. The steps
    compute nothing, as nobody would wait for 100,000; all around them is as it always is."""
    with _folders(), connected(folder / "burst") as session:
        trainer = _trainer(folder, _Leaves(step), save_strategy="steps", save_steps=step)
        trainer.training_step = lambda *_: torch.zeros(())
        try:
            trainer.train()
        except _Lost:
            if session.engine is None or not session.engine.wait(600):
                raise AssertionError("no checkpoint") from None


@contextmanager
def _folders() -> Iterator[None]:
    """The Trainer's own checkpoints are written, too."""
    os.environ["BURST_TRANSFORMERS"] = "folders"
    try:
        yield
    finally:
        del os.environ["BURST_TRANSFORMERS"]


def _resumed(step: int, folder: Path, own: Path | None) -> float:
    leaves = _Leaves(step + 1)
    with connected(folder / "burst") if own is None else nullcontext():
        trainer = _trainer(folder, leaves, alone=own is not None)
        begun = time.perf_counter()
        try:
            trainer.train(resume_from_checkpoint=None if own is None else str(own))
        except _Lost:
            if trainer.state.global_step != step + 1:
                raise AssertionError("it did not go on where it was") from None
    return float(leaves.seen.first - begun)


def _trainer(folder: Path, leaves: _Leaves, *, alone: bool = False, **changes: Any) -> Any:
    set_seed(7)
    settings = {
        "num_train_epochs": 1,
        "per_device_train_batch_size": BATCH,
        "optim": "sgd",
        "max_grad_norm": 0.0,
        **changes,
    }
    return trainer_of(
        alone=alone,
        model=OneParameter(),
        args=arguments(folder / "out", **settings),
        train_dataset=Numbers(),
        data_collator=collate,
        callbacks=[leaves],
    )
