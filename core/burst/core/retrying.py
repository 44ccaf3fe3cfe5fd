"""Trying again what a network or a busy server spoiled."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from burst.core.chance import chance
from burst.core.errors import BurstError

T = TypeVar("T")


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
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = chance.random

    def run(self, attempt: Callable[[], T]) -> T:
        """What `attempt` returns, at last.

        Raises:
            BurstError: the last Passing's, when it was raised too often.
        """
        failed = 0
        while True:
            try:
                return attempt()
            except Passing as passing:
                failed = 1 if passing.progress else failed + 1
                if failed >= self.attempts:
                    raise passing.error from passing
                self.sleep(self.pause(failed))

    def pause(self, failed: int) -> float:
        """Seconds to wait after so many failures in a row."""
        return self.random() * min(self.longest_s, self.first_s * 2.0 ** min(failed - 1, 30))
