"""Trying again what a network or a busy server spoiled."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from burst.core.chance import chance
from burst.core.errors import BurstError

T = TypeVar("T")


_deadline: ContextVar[float] = ContextVar("burst.core.retrying", default=math.inf)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Inside, and in this thread, nothing is tried again that would begin later than so many
    seconds from now. What was begun ends with its own timeout."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


class Passing(Exception):
    """What may be different a moment later: a throttle, a reset, a damaged transfer."""

    def __init__(self, error: BurstError, *, progress: bool = False) -> None:
        """
        Args:
            error: what is said when trying again did not help.
            progress: whether something was achieved since the last attempt.
        """
        super().__init__(str(error))
        self.error = error
        self.progress = progress


@dataclass(frozen=True)
class Retries:
    """How often, and how long apart: "full jitter", so that many clients do not come back at once.

    Source: M. Brooker, Exponential Backoff And Jitter, AWS Architecture Blog, 2015.
    """

    attempts: int = 8
    """In a row without progress."""
    first_s: float = 0.1
    longest_s: float = 10.0
    within_s: float = math.inf
    """From the first of them on; later than that none begins."""
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = chance.random
    clock: Callable[[], float] = time.monotonic

    def run(self, attempt: Callable[[], T]) -> T:
        """What `attempt` returns, at last.

        Raises:
            BurstError: the last Passing's, when it was raised too often.
        """
        failed, until = 0, math.inf
        while True:
            try:
                return attempt()
            except Passing as passing:
                now = self.clock()
                if passing.progress or not failed:
                    failed, until = 0, min(now + self.within_s, _deadline.get())
                failed += 1
                pause = self.pause(failed)
                if failed >= self.attempts or now + pause >= until:
                    raise passing.error from passing
                self.sleep(pause)

    def pause(self, failed: int) -> float:
        """Seconds to wait after so many failures in a row."""
        return self.random() * min(self.longest_s, self.first_s * 2.0 ** min(failed - 1, 30))
