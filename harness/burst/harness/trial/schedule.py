"""What is due after a batch: a pure decision from the periods and the clock."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from burst.harness.agreement import Wish
from burst.harness.trial.units import NEVER, Period

AUTO_SHORTEST_S = 30.0
AUTO_LONGEST_S = 900.0
ASSUMED_SECONDS_BETWEEN_LOSSES = 4 * 3600.0


def auto_interval(cost: float) -> float:
    """Seconds between checkpoints that each stall training by `cost` seconds, by Young's formula
    (J. W. Young, "A first order approximation to the optimum checkpoint interval", 1974) for a
    loss every four hours, kept within bounds."""
    ideal = math.sqrt(2 * max(cost, 0.0) * ASSUMED_SECONDS_BETWEEN_LOSSES)
    return min(max(ideal, AUTO_SHORTEST_S), AUTO_LONGEST_S)


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
    epoch: int | None = None
    checkpoint_cost: float = 0.0
    _marks: dict[Wish, float] = field(default_factory=dict)

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
        return self.seconds is not None or bool(self._intervals())

    def start(self, now: float) -> None:
        self._marks = dict.fromkeys(self._intervals(), now)

    def overdue(self, now: float, trained: float) -> Wish:
        """What the clock makes due at `now`, after `trained` seconds of training."""
        wish = Wish.NOTHING
        for what, interval in self._intervals().items():
            if now - self._marks[what] >= interval:
                wish |= what
        if self.seconds is not None and trained >= self.seconds:
            wish |= Wish.END
        return wish

    def did(self, what: Wish, now: float) -> None:
        for each in self._marks:
            if each & what:
                self._marks[each] = now

    def _intervals(self) -> dict[Wish, float]:
        periods = self.periods
        found = {
            Wish.REPORT: periods.report.seconds,
            Wish.VALIDATE: periods.validate.seconds,
            Wish.CHECKPOINT: auto_interval(self.checkpoint_cost)
            if periods.auto
            else periods.checkpoint.seconds,
        }
        return {wish: seconds for wish, seconds in found.items() if seconds is not None}
