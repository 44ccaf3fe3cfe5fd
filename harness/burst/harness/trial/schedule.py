"""What is due after a batch: a pure decision from the periods and the clock."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from burst.harness.agreement import Wish
from burst.harness.trial.interval import (
    DURABLE_FACTOR,
    FIRST_S,
    SHORTEST_S,
    Conditions,
    auto_interval,
)
from burst.harness.trial.pace import Pace
from burst.harness.trial.units import NEVER, Period

_PERIODS = 9


@dataclass(frozen=True)
class Periods:
    report: Period = NEVER
    validate: Period = NEVER
    checkpoint: Period = NEVER
    auto: bool = False
    """Whether the checkpoint interval follows from what checkpoints cost."""


@dataclass
class Schedule:
    """Periods in batches decide the same on every rank. Those in seconds are rank 0's to decide:
    `overdue` is its wish, which the ranks then agree on."""

    periods: Periods
    target: int | None
    """Batches in all; None if the length is given in seconds."""
    seconds: float | None = None
    """Training seconds in all."""
    conditions: Conditions = field(default_factory=Conditions)
    pace: Pace = field(default_factory=Pace)
    _marks: dict[Wish, float] = field(default_factory=dict)
    """When each wish of the clock was last fulfilled."""
    _every: dict[Wish, float] = field(default_factory=dict)
    _asked: Wish = Wish.NOTHING
    """What was told to be overdue, and is not done yet."""
    _fresh: bool = False
    """Whether nothing of the trial is saved yet."""
    _counted: tuple[int, float] | None = None
    """The batch and the time of the last checkpoint that the count of batches made due."""
    _took: deque[float] = field(default_factory=lambda: deque(maxlen=_PERIODS))
    """Seconds a batch between those, with all that lies between."""
    _durable: float = 0.0

    def next_boundary(self, batches: int) -> int | None:
        """The first batch beyond `batches` after which something is due by count."""
        periods = (self.periods.report, self.periods.validate, self.periods.checkpoint)
        found = [period.next(batches) for period in periods]
        found.append(self.target)
        return min((b for b in found if b is not None and b > batches), default=None)

    def due(self, batches: int) -> Wish:
        """What the count of batches makes due. Metrics are reported with every validation that
        batches decide, so that the two can be compared."""
        wish = Wish.NOTHING
        if self.periods.validate.due(batches):
            wish |= Wish.VALIDATE | Wish.REPORT
        if self.periods.report.due(batches):
            wish |= Wish.REPORT
        if self.periods.checkpoint.due(batches):
            wish |= Wish.CHECKPOINT
        if self.target is not None and batches >= self.target:
            wish |= Wish.END
        return wish

    @property
    def timed(self) -> bool:
        """Whether anything depends on the clock."""
        return self.seconds is not None or bool(self._every)

    def start(self, now: float, *, batches: int = 0, fresh: bool = True) -> None:
        """Training begins, or goes on, at `batches`; `fresh` is whether nothing is saved yet."""
        self._fresh = fresh
        self._every = self._intervals()
        self._marks = dict.fromkeys(self._every, now)
        self._counted = (batches, now)
        self.pace.start(now)

    def overdue(self, now: float, trained: float) -> Wish:
        """What the clock makes due at `now`, after `trained` seconds of training. It is told once
        until it is done: several ranks agree a batch later, when a second wish is on its way."""
        wish = Wish.NOTHING
        for what, interval in self._every.items():
            if now - self._marks[what] >= interval and not self._asked & what:
                wish |= what
        if wish:
            self._asked |= wish
        if self.seconds is not None and trained >= self.seconds:
            wish |= Wish.END
        return wish

    def did(self, what: Wish, now: float) -> None:
        self._asked &= ~what
        for each in self._marks:
            if each & what:
                self._marks[each] = now

    def saved(
        self, batches: int, now: float, stall: float, *, durable: float, saving: bool
    ) -> None:
        """A checkpoint was taken after `batches` batches.

        Args:
            now: when training goes on.
            stall: seconds that it held training up.
            durable: seconds until the last one was durable; 0 is as long as the stall.
            saving: whether it is still being written.
        """
        self.pace.saved(stall, saving)
        self._durable = durable or stall
        self._fresh = False
        if self.periods.checkpoint.due(batches) and self._counted is not None:
            before, then = self._counted
            self._took.append((now - then) / max(1, batches - before))
            self._counted = (batches, now)
        self._every = self._intervals()
        self._marks = {what: self._marks.get(what, now) for what in self._every}
        self.did(Wish.CHECKPOINT, now)

    def expected(self) -> float | None:
        """Seconds in which the next checkpoint is to be expected after one; None where no period
        asks for any, and before anything was measured. Safe from any thread."""
        step, every = self.pace.step, self.periods.checkpoint.every
        found = self._steady_interval()
        if every is not None:
            a_batch = median(tuple(self._took)) if self._took else step
            found = None if a_batch is None else every * a_batch
        if found is None or (step is None and self.pace.cost is None):
            return None
        return max(found, step or 0.0, DURABLE_FACTOR * self._durable)

    def _intervals(self) -> dict[Wish, float]:
        periods = self.periods
        found = {
            Wish.REPORT: periods.report.seconds,
            Wish.VALIDATE: periods.validate.seconds,
            Wish.CHECKPOINT: self._checkpoint_interval(),
        }
        return {wish: seconds for wish, seconds in found.items() if seconds is not None}

    def _checkpoint_interval(self) -> float | None:
        steady = self._steady_interval()
        if self._fresh and (self.periods.auto or self.conditions.early):
            return FIRST_S if steady is None else min(steady, FIRST_S)
        return steady

    def _steady_interval(self) -> float | None:
        if not self.periods.auto:
            return self.periods.checkpoint.seconds
        cost = self.pace.cost
        if cost is None:
            return SHORTEST_S
        return auto_interval(cost, self.conditions.between_losses, self._durable)
