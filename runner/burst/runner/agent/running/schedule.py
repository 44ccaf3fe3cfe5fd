"""When an attempt is asked to leave, when it is told to, and when it is ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from burst.core.model import Drain, DrainCause

KILL_AFTER_S = 5.0
"""Between SIGTERM and SIGKILL."""
ABANDON_AFTER_S = 15.0
"""After SIGKILL, for a guard that does not answer (stopped, or stuck in the kernel)."""


class Step(IntEnum):
    """What is due, each including the ones before."""

    NOTHING = 0
    ASK = 1
    """The stop flag: finish the batch, checkpoint, leave."""
    TERMINATE = 2
    KILL = 3
    ABANDON = 4


@dataclass(frozen=True)
class Schedule:
    """The moments of each step on the agent's monotonic clock; infinite is never."""

    ask: float = math.inf
    terminate: float = math.inf
    kill: float = math.inf

    def due(self, now: float) -> Step:
        if now >= self.kill + ABANDON_AFTER_S:
            return Step.ABANDON
        if now >= self.kill:
            return Step.KILL
        if now >= self.terminate:
            return Step.TERMINATE
        return Step.ASK if now >= self.ask else Step.NOTHING

    def next(self, now: float) -> float:
        """Seconds until another step is due; infinite where none is left."""
        moments = (self.ask, self.terminate, self.kill, self.kill + ABANDON_AFTER_S)
        return min((moment - now for moment in moments if moment > now), default=math.inf)

    def sooner(self, other: Schedule) -> Schedule:
        """Each step at the earlier of the two: a request to leave is never taken back."""
        return Schedule(
            ask=min(self.ask, other.ask),
            terminate=min(self.terminate, other.terminate),
            kill=min(self.kill, other.kill),
        )


def schedule_of(drain: Drain, *, grace: float, wall: float, now: float) -> Schedule:
    """The schedule of a drain first heard at `now` (monotonic), when the date was `wall`.

    A deadline is a date that another machine may have written, so it is turned into a duration
    once. Without one it is the experiment's grace, counted from the hearing.
    """
    if drain.cause is DrainCause.KILL:
        return Schedule(ask=now, terminate=now, kill=now)
    left = grace if drain.deadline is None else max(0.0, drain.deadline - wall)
    return Schedule(ask=now, terminate=now + left, kill=now + left + KILL_AFTER_S)


def at_lease_end(end: float, *, margin: float) -> Schedule:
    """The schedule that is over when the lease is: ask `margin` before, and be gone by its end."""
    return Schedule(ask=end - margin, terminate=end - margin / 2, kill=end - margin / 5)
