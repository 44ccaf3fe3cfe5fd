"""What a Trainer logs, as burst's metrics: under its own names, at its own steps."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from burst.harness.errors import MetricError
from burst.harness.session import Session
from burst.harness.trial.goal import Goal, tell_missing
from burst.harness.values import check_name, to_float

TRAINING, VALIDATION = "training", "validation"


def numbers_of(logs: Mapping[str, Any]) -> dict[str, float]:
    """What of logged values is one number each; text and the like is the log's alone."""
    found = {}
    for name, value in logs.items():
        with suppress(MetricError):
            check_name(name)
            found[name] = to_float(name, value)
    return found


class Reports:
    """Gathers what is logged at one step, since a group has one row a step.

    Several evaluations at a step (several data sets, one after training) make one row.
    """

    def __init__(self, session: Session, goal: Goal, offset: int = 0) -> None:
        """
        Args:
            offset: added to steps: those of trainings before this one.
        """
        self.best = False
        """Whether the last evaluation was the best so far."""
        self.validated: int | None = None
        """The step of the last evaluation."""
        self.metrics: dict[str, float] = {}
        """Its metrics."""
        self._session = session
        self._goal = goal
        self._offset = offset
        self._rows: dict[str, tuple[int, dict[str, float]]] = {}
        self._told_goal = False

    def log(self, step: int, logs: Mapping[str, Any]) -> None:
        """Training values, as they are logged."""
        self._report(TRAINING, step, numbers_of(logs))

    def predicted(self, step: int, metrics: Mapping[str, Any]) -> None:
        self._report("test", step, numbers_of(metrics))

    def evaluated(self, step: int, metrics: Mapping[str, Any], *, training: bool = True) -> None:
        """The metrics of a whole evaluation.

        Args:
            training: whether it is one of a training. Any other may be of another model (the best
                one, loaded at the end), so it only adds what the row of that step has not.

        Raises:
            ConfigError: the search goes by a metric that is not among them.
        """
        values = numbers_of(metrics)
        before = self._rows.get(VALIDATION)
        if not training and before is not None and before[0] == step:
            values = {name: value for name, value in values.items() if name not in before[1]}
            if not values:
                return
        row = self._merged(VALIDATION, step, values)
        self.validated, self.metrics = step, row
        self.best = self._session.progress.judge(step + self._offset, row)
        self._send(VALIDATION, step, row)
        if self._goal.metric not in row and not self._told_goal:
            self._told_goal = True
            tell_missing(self._goal, row, self._session)

    def _report(self, group: str, step: int, values: dict[str, float]) -> None:
        if values:
            self._send(group, step, self._merged(group, step, values))

    def _merged(self, group: str, step: int, values: dict[str, float]) -> dict[str, float]:
        before = self._rows.get(group)
        row = {**before[1], **values} if before is not None and before[0] == step else values
        self._rows[group] = step, row
        return row

    def _send(self, group: str, step: int, row: dict[str, float]) -> None:
        self._session.report(group, step + self._offset, row)
