"""What the runner in an account measures of its cluster, for alarms and a dashboard.

It is printed as one line in CloudWatch's embedded metric format: what a function prints goes to
its log, and CloudWatch makes metrics of such lines by itself. So no call is made for it, none can
fail, and none has to be allowed. An idle cluster prints nothing, and its metrics cost nothing.

Source: Amazon CloudWatch User Guide, "Specification: Embedded metric format".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from burst.core.aws.metrics import (
    CHECKPOINT_AGE,
    CLUSTER_DIMENSION,
    DOLLARS_PER_HOUR,
    NAMESPACE,
    NODES,
    RUNNING,
    STRAYS,
    WAITING,
)
from burst.core.checkpoints.assurance.age import LATE_FACTOR, allowed_age, is_late, late_at
from burst.core.model import Experiment, Node, Trial
from burst.core.states import ExperimentState, NodeState, TrialState
from burst.core.store.port import Store


@dataclass(frozen=True)
class Measured:
    """A cluster at one moment."""

    strays: int
    nodes: int
    """Whose machines are up, or come up."""
    waiting: int
    """Trials that wait for slots; one that is paused waits for a person."""
    running: int
    dollars_per_hour: float
    checkpoint_age: float | None
    """Of the trial that is worst off: seconds of training without a durable checkpoint, as a
    multiple of the seconds in which one was to be expected; None where none is expected."""

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to tell of."""
        return not (self.strays or self.nodes or self.waiting or self.running)


def look(store: Store, strays: int, now: float) -> Measured:
    """Measure what the records say now.

    Args:
        strays: machines of which none of them knows (`Runner.strays`).
        now: the date.

    Raises:
        BurstError: the store cannot be read.
    """
    return measure(store.live(Node), store.live(Trial), store.live(Experiment), strays, now)


def measure(
    nodes: Iterable[Node],
    trials: Iterable[Trial],
    experiments: Iterable[Experiment],
    strays: int,
    now: float,
) -> Measured:
    """The same from records that are live. Pure."""
    up = [node for node in nodes if node.state is not NodeState.REQUESTED]
    trials = list(trials)
    paused = {each.id for each in experiments if each.state is ExperimentState.PAUSED}
    ages = [age for trial in trials if (age := checkpoint_age(trial, now)) is not None]
    return Measured(
        strays=strays,
        nodes=len(up),
        waiting=sum(_waits(trial, paused) for trial in trials),
        running=sum(trial.state is TrialState.RUNNING for trial in trials),
        dollars_per_hour=sum(node.price or 0.0 for node in up),
        checkpoint_age=max(ages, default=None),
    )


def checkpoint_age(trial: Trial, now: float) -> float | None:
    """As `Measured.checkpoint_age`, of one trial; it is `LATE_FACTOR` or more exactly if the trial
    is late wherever else that is told."""
    allowed, late = allowed_age(trial), late_at(trial)
    if allowed is None or late is None:
        return None
    age = max(0.0, LATE_FACTOR * (now - late + allowed) / allowed)
    return max(age, LATE_FACTOR) if is_late(trial, now) else age


def metric_line(cluster: str, measured: Measured, now: float) -> str:
    """One line of CloudWatch's embedded metric format.

    Args:
        now: when it was measured, as a date.
    """
    values: dict[str, float] = {
        STRAYS: measured.strays,
        NODES: measured.nodes,
        WAITING: measured.waiting,
        RUNNING: measured.running,
        DOLLARS_PER_HOUR: round(measured.dollars_per_hour, 4),
    }
    if measured.checkpoint_age is not None:
        values[CHECKPOINT_AGE] = round(measured.checkpoint_age, 3)
    counts = (STRAYS, NODES, WAITING, RUNNING)
    metrics = [
        {"Name": name, "Unit": "Count" if name in counts else "None"} for name in sorted(values)
    ]
    directive = {"Namespace": NAMESPACE, "Dimensions": [[CLUSTER_DIMENSION]], "Metrics": metrics}
    about = {"Timestamp": int(now * 1000), "CloudWatchMetrics": [directive]}
    return json.dumps({"_aws": about, CLUSTER_DIMENSION: cluster, **values})


def _waits(trial: Trial, paused: set[str]) -> bool:
    held = trial.experiment in paused or trial.wanted is TrialState.PAUSED
    return trial.state is TrialState.WAITING and not held


class Teller:
    """Prints what is measured, as long as there is something to tell, and once when there is not
    any more: else the last value would seem to hold."""

    def __init__(self) -> None:
        self._told = False

    def line(self, cluster: str, measured: Measured, now: float) -> str:
        """What to print; empty if nothing."""
        before, self._told = self._told, not measured.nothing
        return metric_line(cluster, measured, now) if before or self._told else ""
