"""What burst has to do with one Trainer: its reports, and its training while there is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from burst.harness.transformers.connection import Connection, connection
from burst.harness.transformers.reports import Reports
from burst.harness.transformers.training import Training

_NAME = "_burst"


class Attached:
    def __init__(self, trainer: Any, link: Connection) -> None:
        self.link = link
        self.reports = Reports(link.session, link.goal, link.steps)
        self.training: Training | None = None
        """The training that goes on, where burst keeps it."""
        self._trainer = trainer
        self._depth = 0
        self._evaluated: dict[str, Any] = {}

    # --- training ---------------------------------------------------------------------------

    @contextmanager
    def trains(self) -> Iterator[Training]:
        """While `Trainer.train` runs."""
        trainer, link = self._trainer, self.link
        searching = trainer.hp_search_backend is not None
        number = link.next_training()
        self.reports = Reports(link.session, link.goal, link.steps)
        kept = number == 0 and not searching
        self.training = Training(trainer, link, self.reports, kept=kept)
        if not kept:
            self.training.tell_not_kept(searching)
        try:
            yield self.training
        finally:
            self.training = None
            link.steps += int(trainer.state.global_step)

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
            metrics, self._evaluated = self._evaluated, {}
            self.reports.evaluated(int(self._trainer.state.global_step), metrics)

    def evaluated(self, metrics: Mapping[str, Any]) -> None:
        """One data set's metrics."""
        self._evaluated |= metrics
        if self._depth == 0:  # by a loop of the script's own
            self.reports.evaluated(int(self._trainer.state.global_step), metrics)
            self._evaluated = {}

    @property
    def evaluating(self) -> bool:
        return self._depth > 0


def attach(trainer: Any) -> Attached | None:
    """What is attached to a Trainer, from now on; None outside an experiment. Collective at the
    first call of a process."""
    found: Attached | None = trainer.__dict__.get(_NAME)
    if found is None and (link := connection()) is not None:
        from burst.harness.transformers.callback import BurstCallback

        found = Attached(trainer, link)
        setattr(trainer, _NAME, found)
        callbacks = trainer.callback_handler.callbacks
        mine = next((each for each in callbacks if isinstance(each, BurstCallback)), None)
        if mine is None:
            mine = BurstCallback()
        else:
            callbacks.remove(mine)
        callbacks.insert(0, mine)  # before those that take values out of what is logged
        mine.attached = found
    return found


def training_of(trainer: Any) -> Training | None:
    """The training that goes on, if burst keeps it."""
    found: Attached | None = trainer.__dict__.get(_NAME)
    training = None if found is None else found.training
    return training if training is not None and training.kept else None
