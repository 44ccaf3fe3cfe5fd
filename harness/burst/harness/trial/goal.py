"""What validations are for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from burst.core.errors import ConfigError
from burst.harness.errors import did_you_mean
from burst.harness.session import Session

Policy = Literal["best", "all", "none"]


@dataclass(frozen=True)
class Goal:
    """What validations are for."""

    metric: str = "validation_loss"
    smaller_is_better: bool = True
    policy: Policy = "best"
    """Which validations are followed by a checkpoint."""
    needed: bool = False
    """Whether the searcher cannot do without the metric."""
    at_start: bool = False


def tell_missing(goal: Goal, metrics: Mapping[str, float], session: Session) -> None:
    """Say that validations do not report what the search goes by.

    Raises:
        ConfigError: the search cannot do without it.
    """
    text = f"no validation metric is called {goal.metric!r}, which `searcher.metric` names"
    mend = did_you_mean(goal.metric, metrics)
    if goal.needed:
        seen = ", ".join(sorted(metrics)) or "none"
        near = mend if mend.startswith("did you mean") else "write one of them there"
        raise ConfigError(f"{text}; this validation reported {seen}", mend=near)
    session.warn("trial.metric_missing", f"{text}; {mend}")
