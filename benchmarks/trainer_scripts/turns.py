"""Two trainings by short turns, one under burst and one alone.

Whole runs after one another differ by more than is to be seen here. So both go on at the same
time, each in a thread that waits while it is the other's turn, and each turn is compared with the
one beside it.
"""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, set_seed

from benchmarks.trainer_scripts.scripts import Own, Tokens, arguments, connected, trainer_of
from burst.harness.checkpoints.port import CheckpointEngine

WARM_UP = 3
"""Turns of each that do not count."""
_OF_MEDIAN = 1.25
"""A median's error beside that of a mean, where what is measured scatters normally."""


@dataclass(frozen=True)
class Script:
    model: Callable[[], Any]
    vocabulary: int
    steps: int
    """Of a turn: some tenths of a second."""
    turns: int
    """Of each, that count."""
    saves: bool = False
    """Whether the Trainer itself saves, in the middle of every turn."""


@dataclass
class Side:
    """What one of the two did."""

    took: list[float] = field(default_factory=list)
    """Seconds of each turn."""
    processor: list[float] = field(default_factory=list)
    """Processor seconds of each turn, of all threads."""
    saved: list[bool] = field(default_factory=list)
    """Of each turn, whether a checkpoint was made in it."""
    steps: list[tuple[int, float]] = field(default_factory=list)
    """Each step, counted from 1, and its seconds: until the next begins."""

    def held_up(self, every: int) -> float:
        """Seconds by which a save makes the step longer that it follows, in the median."""
        saving = [took for step, took in self.steps if step % every == 0]
        return statistics.median(saving) - statistics.median(took for _, took in self.steps)


@dataclass(frozen=True)
class Rate:
    """Steps a second under burst over those alone."""

    ratio: float
    error: float
    checkpoints: float
    """The part of the time that burst's own checkpoints took: too few for a median to show."""


@dataclass(frozen=True)
class Compared:
    ours: Side
    theirs: Side
    script: Script

    @property
    def wall(self) -> Rate:
        return self._rate(self.ours.took, self.theirs.took)

    @property
    def processor(self) -> Rate:
        """By what the processor did, which others on the machine move less."""
        return self._rate(self.ours.processor, self.theirs.processor)

    def step(self, side: Side) -> float:
        """Seconds of one, in the median of the turns."""
        return statistics.median(side.took) / self.script.steps

    def _rate(self, ours: list[float], theirs: list[float]) -> Rate:
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        error = _OF_MEDIAN * statistics.stdev(ratios) / len(ratios) ** 0.5
        saved, usual = 0.0, statistics.median(ours)
        if not self.script.saves:
            pairs = zip(ours, self.ours.saved, strict=True)
            saved = sum(took - usual for took, saved in pairs if saved) / (usual * len(ours))
        return Rate(1 / (statistics.median(ratios) + saved), error, saved)


def by_turns(script: Script, folder: Path) -> Compared:
    baton = _Baton()
    with ThreadPoolExecutor(2) as threads:
        ours = threads.submit(_train, script, folder / "ours", baton, alone=False)
        theirs = threads.submit(_train, script, folder / "theirs", baton, alone=True)
        found = Compared(ours.result(), theirs.result(), script)
    shutil.rmtree(folder)
    return found


class _Baton:
    """Whose turn it is, of two."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._alone = True
        self._here = 2

    def take(self, *, alone: bool) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._alone == alone or self._here == 1)

    def give(self, *, alone: bool) -> None:
        with self._changed:
            self._alone = not alone
            self._changed.notify_all()

    def leave(self) -> None:
        with self._changed:
            self._here -= 1
            self._changed.notify_all()


class _Turns(TrainerCallback):
    """Gives the baton away after so many steps, and waits for it."""

    def __init__(
        self, script: Script, baton: _Baton, clock: Own, engine: CheckpointEngine | None
    ) -> None:
        self.side = Side()
        self._script = script
        self._baton = baton
        self._clock = clock
        self._engine = engine
        self._begun = 0.0
        self._processor = 0.0
        self._durable = 0.0
        self._step = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        now, turn = time.perf_counter(), self._script.steps
        # Where the Trainer saves, in the middle of a turn: what it leaves to do is done within.
        turns, steps = divmod(state.global_step + turn // 2 * self._script.saves, turn)
        if turns > WARM_UP:
            self.side.steps.append((state.global_step, now - self._step))
        if steps == 0 or state.global_step == 0:
            if state.global_step:
                self._ends(counted=turns > WARM_UP)
            self._begin()
        self._step = time.perf_counter()

    def _begin(self) -> None:
        alone, before = self._engine is None, time.perf_counter()
        self._baton.take(alone=alone)
        self._clock.away += time.perf_counter() - before
        self._begun, self._processor = time.perf_counter(), time.process_time()

    def _ends(self, *, counted: bool) -> None:
        saved = False
        if self._engine is not None:
            self._engine.settle()
            while self._engine.busy():
                time.sleep(0.0005)
            saved = self._engine.last_durable_s != self._durable
            self._durable = self._engine.last_durable_s
        if counted:
            self.side.took.append(time.perf_counter() - self._begun)
            self.side.processor.append(time.process_time() - self._processor)
            self.side.saved.append(saved)
        self._baton.give(alone=self._engine is None)


def _train(script: Script, folder: Path, baton: _Baton, *, alone: bool) -> Side:
    torch.set_num_threads(1)
    clock = Own()
    try:
        with nullcontext() if alone else connected(folder / "burst", clock) as session:
            baton.take(alone=alone)
            set_seed(7)
            turns = _Turns(script, baton, clock, None if session is None else session.engine)
            steps = (WARM_UP + script.turns) * script.steps + 1
            saving = {"save_strategy": "steps", "save_steps": script.steps}
            trainer_of(
                alone=alone,
                model=script.model(),
                args=arguments(
                    folder / "out",
                    max_steps=steps,
                    save_total_limit=2,
                    **(saving if script.saves else {}),
                ),
                train_dataset=Tokens(8 * (steps + 1), script.vocabulary),
                callbacks=[turns],
            ).train()
            return turns.side
    finally:
        baton.leave()
