"""What has to be the matter for an alarm to go off. Pure data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burst.core.aws.metrics import CHECKPOINT_AGE, CLUSTER_DIMENSION, NAMESPACE, STRAYS
from burst.core.aws.names import function_name
from burst.core.checkpoints.assurance.age import LATE_FACTOR

LAMBDA = "AWS/Lambda"
TOO_OLD = LATE_FACTOR
"""So many times what a trial asked for, a checkpoint is late wherever else that is told."""
_FIVE_MINUTES = 300


@dataclass(frozen=True)
class Metric:
    namespace: str
    name: str
    dimension: str
    of: str
    """The dimension's value."""


@dataclass(frozen=True)
class Alarm:
    part: str
    name: str
    means: str
    """What is the matter and what to do, for the e-mail."""
    metric: Metric
    statistic: str
    comparison: str
    threshold: float
    periods: int
    """In each of so many periods in a row."""
    missing: str = "notBreaching"
    """What it means that nothing was measured: an idle cluster measures nothing."""
    period: int = _FIVE_MINUTES


def alarms_of(cluster: str) -> Sequence[Alarm]:
    """Of a cluster whose runner is a function, which measures them."""
    runner = function_name(cluster)
    return [
        Alarm(
            "leak",
            f"burst-{cluster}-leak",
            f"Machines of cluster {cluster} have run for 15 minutes that no record answers for, "
            "and the runner does not get them ended. See: burst audit",
            metric=Metric(NAMESPACE, STRAYS, CLUSTER_DIMENSION, cluster),
            statistic="Maximum",
            comparison="GreaterThanThreshold",
            threshold=0,
            periods=3,
        ),
        Alarm(
            "checkpoint",
            f"burst-{cluster}-checkpoint",
            f"A trial of cluster {cluster} has trained for longer than twice its interval without "
            "a durable checkpoint: if its machine is lost, so is that. See: burst why",
            metric=Metric(NAMESPACE, CHECKPOINT_AGE, CLUSTER_DIMENSION, cluster),
            statistic="Maximum",
            comparison="GreaterThanOrEqualToThreshold",
            threshold=TOO_OLD,
            periods=2,
        ),
        Alarm(
            "failing",
            f"burst-{cluster}-failing",
            f"Most calls of the runner of cluster {cluster} have failed for 10 minutes. Trials "
            "train on, and nothing is started or replaced. See the function's log",
            metric=Metric(LAMBDA, "Errors", "FunctionName", runner),
            statistic="Sum",
            comparison="GreaterThanOrEqualToThreshold",
            threshold=3,
            periods=2,
        ),
        Alarm(
            "silent",
            f"burst-{cluster}-silent",
            f"Nothing has called the runner of cluster {cluster} for 10 minutes, which its "
            "schedule does each minute. Nothing is started, replaced or swept. Run: burst up",
            metric=Metric(LAMBDA, "Invocations", "FunctionName", runner),
            statistic="Sum",
            comparison="LessThanThreshold",
            threshold=1,
            periods=2,
            missing="breaching",
        ),
    ]
