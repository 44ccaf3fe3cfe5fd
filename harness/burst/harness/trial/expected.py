"""When the next checkpoint is to be expected, as the trial's record tells those who watch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from burst.core.clock import Clock
from burst.harness.trial.schedule import Schedule

_GAPS = 9
_ENOUGH = 3


class Expected:
    """The schedule's word, but for validations: none is to be expected while one goes on for
    longer than that, nor for as long after it as the schedule then needs. Called from the
    reporter's thread, told of validations from the loop's."""

    def __init__(self, schedule: Schedule, clock: Clock) -> None:
        self._schedule = schedule
        self._clock = clock
        self._since: float | None = None
        """When the validation that goes on began."""
        self._not_before = float("-inf")

    def __call__(self) -> float | None:
        """Seconds, to three digits; None where nobody can say."""
        expected = self._schedule.expected()
        if expected is None:
            return None
        now, since = self._clock.monotonic(), self._since
        validates = since is not None and now - since > expected
        if validates or now < self._not_before:
            return None
        return float(f"{expected:.3g}")

    @contextmanager
    def validating(self) -> Iterator[None]:
        began = self._since = self._clock.monotonic()
        try:
            yield
        finally:
            now, expected = self._clock.monotonic(), self._schedule.expected()
            if expected is not None and now - began > expected:
                self._not_before = now + expected
            self._since = None


class Usual:
    """For a script with a loop of its own, which nobody told a period: the next checkpoint is to
    be expected after the median of the last times between two."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()
        self._gaps: deque[float] = deque(maxlen=_GAPS)

    def saved(self) -> None:
        now = self._clock.monotonic()
        self._gaps.append(now - self._last)
        self._last = now

    def __call__(self) -> float | None:
        """Seconds, to three digits; None before three checkpoints. Safe from any thread."""
        gaps = tuple(self._gaps)
        return float(f"{median(gaps):.3g}") if len(gaps) >= _ENOUGH else None
