"""Experiments: the searcher's events and actions, what a pause or an end means, and the end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from burst.core.checkpoints.exchange.source import continued_seed
from burst.core.config.experiment import ExperimentConfig
from burst.core.ids import trial_id
from burst.core.model import DrainCause, Event, Experiment, Trial
from burst.core.states import ExperimentState, Reason, TrialState, is_terminal
from burst.core.store.port import Append, Put, Write
from burst.core.units import counted
from burst.runner.enforce import config_of, end_trial, enforce
from burst.runner.pools.choice import pools_for
from burst.runner.reconcile.context import Context, View
from burst.runner.reconcile.retain import retain_all
from burst.runner.search import make_searcher
from burst.runner.search.book import Book
from burst.runner.search.port import Create, SearchAction, Shutdown, StopTrial
from burst.runner.transitions import move

log = logging.getLogger(__name__)

_ACTIONS_A_COMMIT = 40
_TRIALS_A_COMMIT = 40
_INBOX = 500
"""Events in the book from which on validations stay in the trials' records."""
_FAIR = ("completed", "stopped")

Ending = Literal["completed", "cancelled", "failed"]


def reconcile_experiments(ctx: Context, view: View) -> float | None:
    """Take one step with every live experiment that has one to take."""
    trials: dict[str, list[Trial]] = {}
    for trial in view.trials:
        trials.setdefault(trial.experiment, []).append(trial)
    for experiment in view.experiments:
        live = trials.get(experiment.id, [])
        ctx.attempt(partial(enforce, ctx.store, experiment, live, ctx.clock))
        ctx.attempt(partial(_step, ctx, experiment, live))
    return None


def _step(ctx: Context, experiment: Experiment, live: Sequence[Trial]) -> None:
    book = Book.of(experiment)
    if experiment.state is ExperimentState.STOPPING:
        if book.ended >= experiment.trials:
            _end(ctx, experiment, experiment.ending or "cancelled", experiment.reason)
    elif (speaking := [trial for trial in live if trial.untold]) and len(book.inbox) < _INBOX:
        _hear(ctx, experiment, book, speaking[:_TRIALS_A_COMMIT])
    elif book.inbox:
        _take_in(ctx, experiment, book, live)
    elif book.shut and book.ended >= experiment.trials:
        _end(ctx, experiment, *_verdict(ctx, experiment, book))


def _hear(ctx: Context, experiment: Experiment, book: Book, speaking: Sequence[Trial]) -> None:
    """Bring validations from the trials' records to the book, as many as it has room for."""
    heard: list[Write] = []
    for trial in speaking:
        if len(book.inbox) < _INBOX:
            book = book.hear(trial)
            heard.append(Put(Book.heard(trial)))
    ctx.commit(Put(experiment.model_copy(update={"search": book.written()})), *heard)


def _verdict(ctx: Context, experiment: Experiment, book: Book) -> tuple[Ending, Reason]:
    """How it ended; where a whole search failed, with what the first of its trials said."""
    ending, reason = verdict(book)
    if ending == "failed" and book.ended > 1:
        trials = ctx.store.children(Trial, experiment.id, limit=_TRIALS_A_COMMIT)
        said = [each.reason.text for each in trials if each.state is TrialState.FAILED]
        if said:
            text = f"{reason.text}; the first says: {said[0]}"
            reason = reason.model_copy(update={"text": text})
    return ending, reason


def verdict(book: Book) -> tuple[Ending, Reason]:
    """How an experiment ended whose trials all have."""
    good = sum(book.closed.get(how, 0) for how in _FAIR)
    cancelled = book.closed.get("cancelled", 0)
    if good or not book.ended:
        return "completed", Reason(
            code="completed", text=f"{good} of {counted(book.ended, 'trial')} succeeded"
        )
    if cancelled == book.ended:
        return "cancelled", Reason(code="cancelled", text="every trial was cancelled")
    return "failed", Reason(code="failed", text="no trial succeeded")


def _take_in(ctx: Context, experiment: Experiment, book: Book, live: Sequence[Trial]) -> None:
    """Ask the searcher about the oldest events, up to the first that it answers with actions, and
    carry out the next of those, in one commit."""
    config = config_of(experiment)
    searcher = make_searcher(config)
    state, actions = searcher.on_event(book.state, book.inbox[0].to_event())
    while not actions and len(book.inbox) > 1:
        book = book.model_copy(update={"state": state, "inbox": book.inbox[1:]})
        state, actions = searcher.on_event(book.state, book.inbox[0].to_event())
    chunk = actions[book.made : book.made + _ACTIONS_A_COMMIT]
    stops = [action for action in chunk if isinstance(action, StopTrial)]
    if stops:
        _stop(ctx, experiment, stops, live)
    made = book.made + len(chunk)
    book = _noting(book.model_copy(update={"made": made}), chunk)
    if made >= len(actions):
        book = book.model_copy(update={"state": state, "inbox": book.inbox[1:], "made": 0})
    seed = continued_seed(ctx.store, config.start)
    creates = [
        action if seed is None else replace(action, seed=seed)
        for action in chunk
        if isinstance(action, Create)
    ]
    pools = pools_for(config, ctx.cluster)
    writes: list[Write] = []
    for number, create in enumerate(creates, start=experiment.trials):
        writes += _created(experiment, config, pools, create, number, ctx.clock.now())
    changed = experiment.model_copy(
        update={"search": book.written(), "trials": experiment.trials + len(creates)}
    )
    if ctx.commit(Put(changed), *writes) and creates:
        log.info("experiment %s: %d trials created", experiment.id, len(creates))


def _noting(book: Book, actions: Sequence[SearchAction]) -> Book:
    for action in actions:
        if isinstance(action, Shutdown):
            book = book.model_copy(update={"shut": True, "failed": book.failed or action.failed})
    return book


def _created(
    experiment: Experiment,
    config: ExperimentConfig,
    pools: tuple[str, ...],
    create: Create,
    number: int,
    now: float,
) -> list[Write]:
    trial = Trial(
        id=trial_id(experiment.id, number),
        state_since=now,
        experiment=experiment.id,
        number=number,
        request=create.request,
        hparams=create.hparams,
        seed=create.seed,
        slots=config.resources.slots_per_trial,
        pools=pools,
        created=now,
        queued=now,
    )
    event = Event(subject=trial.id, experiment=experiment.id, name="trial.waiting", at=now)
    return [Put(trial), Append(event)]


def _stop(
    ctx: Context, experiment: Experiment, stops: Sequence[StopTrial], live: Sequence[Trial]
) -> None:
    """Have trials drain for good. One that waits or is paused ends at once."""
    wanted = {stop.request: stop.why for stop in stops}
    found = [trial for trial in live if trial.request in wanted]
    if len(found) < len(wanted):  # a paused trial is not live
        everyone = ctx.store.children(Trial, experiment.id)
        found = [trial for trial in everyone if trial.request in wanted]
    for trial in found:
        if is_terminal(trial.state) or trial.wanted is TrialState.STOPPED:
            continue
        reason = Reason(code="searcher", text=wanted[trial.request])
        ctx.attempt(partial(end_trial, ctx.store, trial.id, DrainCause.STOP, reason, ctx.clock))


def _end(ctx: Context, experiment: Experiment, ending: Ending, reason: Reason) -> None:
    """The experiment's last commit, after retention had its last word."""
    retain_all(ctx, experiment)
    now, writes = ctx.clock.now(), []
    if experiment.state is not ExperimentState.STOPPING:
        experiment, event = move(
            experiment,
            ExperimentState.STOPPING,
            reason,
            now,
            experiment=experiment.id,
            ending=ending,
        )
        writes.append(event)
    over, event = move(experiment, ExperimentState(ending), reason, now, experiment=experiment.id)
    if ctx.commit(*writes, event, Put(over)):
        log.info("experiment %s: %s, %s", over.id, over.state, reason)
