"""How a trial ends: its own record, its experiment's book, and the events, in one commit."""

from __future__ import annotations

from typing import Any

from burst.core.model import Experiment, Trial
from burst.core.states import ExperimentState, Reason, TrialState, is_terminal
from burst.core.store.port import Put, Write
from burst.runner.search.book import Book
from burst.runner.transitions import move


def settle_trial(
    trial: Trial,
    to: TrialState,
    reason: Reason,
    now: float,
    *,
    experiment: Experiment,
    how: str = "",
    **fields: Any,
) -> list[Write]:
    """The writes that bring `trial` to `to`, by way of stopping where the table asks for it.

    What the trial has for the searcher goes to the experiment's book, and at a terminal state the
    end after it; `how` is the word for it, by default the state's own.
    """
    writes: list[Write] = []
    searching = experiment.state is not ExperimentState.STOPPING
    before = book = Book.of(experiment)
    if trial.untold:
        book, trial = book.hear(trial) if searching else book, Book.heard(trial)
    via_stopping = to in (TrialState.STOPPED, TrialState.CANCELLED)
    if trial.state is TrialState.RUNNING and via_stopping:
        trial, event = move(trial, TrialState.STOPPING, reason, now, experiment=trial.experiment)
        writes.append(event)
    over = {"wanted": None, "wait": None, "wait_until": None}
    trial, event = move(trial, to, reason, now, experiment=trial.experiment, **{**over, **fields})
    writes += [event, Put(trial)]
    if is_terminal(to):
        book = book.close(trial.request, how or to.value, tell=searching)
    if book != before:
        writes.append(Put(experiment.model_copy(update={"search": book.written()})))
    return writes
