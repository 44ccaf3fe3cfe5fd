"""How long an agent stays, and what makes it leave. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from burst.core.config.cluster import AwsPool, PoolConfig, StaticPool
from burst.core.states import Reason

PLAN_FIRST_S = 15.0
"""Beyond a pool's `idle` (three times as much, where that is less): a runner that is there
decides by then which nodes leave, and knows what for others have to stay. Without a runner the
agent leaves by itself."""


@dataclass(frozen=True)
class Stay:
    """What the pool says of its agents, in seconds."""

    idle: float | None = None
    """Without work; None stays."""
    max_life: float = math.inf
    """Since the machine was launched."""
    keep_on_error: float = 0.0
    """After an attempt that failed."""
    min_nodes: int = 0
    """So many of the pool's nodes do not leave for want of work."""

    @classmethod
    def of(cls, pool: PoolConfig) -> Stay:
        if isinstance(pool, StaticPool):
            return cls()
        idle = pool.idle + min(PLAN_FIRST_S, 3 * pool.idle)
        if isinstance(pool, AwsPool):
            return cls(idle, pool.max_life, pool.keep_on_error, pool.min_nodes)
        return cls(idle)


@dataclass(frozen=True)
class Situation:
    """An agent at one moment; durations are in seconds."""

    busy: bool
    without_work: float
    age: float
    signalled: bool = False
    lease_lost: str = ""
    unauthorized: bool = False
    """Whether work has failed for want of credentials in the agent's environment."""
    kept_for: float | None = None
    """How long it has been kept since an attempt failed; None where none did."""


def reason_to_leave(stay: Stay, at: Situation) -> Reason | None:
    """Why the agent has to leave now; None where it stays."""
    if at.signalled:
        return Reason(code="signal", text="the agent was asked to end by a signal")
    if at.lease_lost:
        return Reason(code="lease", text=at.lease_lost)
    if at.age >= stay.max_life:
        return Reason(code="old", text=f"the pool's max_life of {stay.max_life:g} s is over")
    return None if at.busy else _without_work(stay, at)


def _without_work(stay: Stay, at: Situation) -> Reason | None:
    if at.kept_for is not None:
        if at.kept_for < stay.keep_on_error:
            return None
        return Reason(code="kept", text=f"an attempt failed here {at.kept_for:.0f} s ago")
    if stay.idle is None:
        return None
    if at.unauthorized:
        # The next one gets the environment of whoever starts it, which may have logged in.
        return Reason(code="idle", text="its environment has no credentials that hold")
    if at.without_work >= stay.idle:
        return Reason(code="idle", text=f"no work for {stay.idle:g} s")
    return None
