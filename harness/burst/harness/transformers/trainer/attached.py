"""What burst has to do with one Trainer: its reports, and its training while there is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from burst.harness.transformers.trainer.connection import Connection
from burst.harness.transformers.trainer.limits import check, why_not_kept
from burst.harness.transformers.trainer.reports import Reports
from burst.harness.transformers.trainer.training import Training

NAME = "_burst"
"""The attribute of a Trainer that it is kept under."""


class Attached:
    def __init__(self, trainer: Any, link: Connection) -> None:
        self.link = link
        self.reports = Reports(link.session, link.terms.goal, link.steps)
        self.training: Training | None = None
        """The training that goes on, where burst keeps it."""
        self.aside = False
        """Whether one goes on of which the metrics are all that is kept."""
        self._trainer = trainer
        self._depth = 0
        self._evaluated: dict[str, Any] = {}

    # --- training ---------------------------------------------------------------------------

    @contextmanager
    def trains(self) -> Iterator[Training | None]:
        """While `Trainer.train` runs; gives the training if burst keeps it."""
        trainer, link = self._trainer, self.link
        check(trainer)
        why = why_not_kept(trainer)
        if link.next_training() and not why:
            why = "this trial has trained before"
        self.reports = Reports(link.session, link.terms.goal, link.steps)
        self.aside = bool(why)
        if self.aside:
            link.session.warn(
                "trial.not_kept",
                f"burst keeps the metrics of this training, and no checkpoint: {why}; if it is "
                "interrupted, it begins anew",
            )
        else:
            self.training = Training(trainer, link, self.reports)
        try:
            yield self.training
        finally:
            self.training, self.aside = None, False
            link.steps += int(trainer.state.global_step)

    def leave_if_asked(self) -> None:
        """Where no training is kept that could be saved first.

        Raises:
            SystemExit: it was asked to leave.
        """
        self.link.leave_if_asked(durable=not self.aside)

    def logged(self, logs: Mapping[str, Any]) -> None:
        """What the Trainer logs of training."""
        scale = self.training.scale() if self.training is not None and "loss" in logs else {}
        self.reports.log(int(self._trainer.state.global_step), {**logs, **scale})

    # --- evaluating -------------------------------------------------------------------------

    @contextmanager
    def evaluates(self) -> Iterator[None]:
        """While `Trainer.evaluate` runs, which calls itself for each of several data sets."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if self._depth == 0 and self._evaluated:
            self._report()

    def evaluated(self, metrics: Mapping[str, Any]) -> None:
        """One data set's metrics."""
        self._evaluated |= metrics
        if self._depth == 0:  # by a loop of the script's own
            self._report()

    def _report(self) -> None:
        metrics, self._evaluated = self._evaluated, {}
        training = self.training is not None or self.aside
        step = int(self._trainer.state.global_step)
        self.reports.evaluated(step, metrics, training=training)

    @property
    def evaluating(self) -> bool:
        return self._depth > 0


def attached_to(trainer: Any) -> Attached | None:
    found: Attached | None = trainer.__dict__.get(NAME)
    return found


def training_of(trainer: Any) -> Training | None:
    """The training that goes on, if burst keeps it."""
    found = attached_to(trainer)
    return None if found is None else found.training
