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
        ctx.attempt(partial(_step, ctx, experiment))
    return None


def _step(ctx: Context, experiment: Experiment) -> None:
    book = Book.of(experiment)
    if experiment.state is ExperimentState.STOPPING:
        if book.ended >= experiment.trials:
            _end(ctx, experiment, experiment.ending or "cancelled", experiment.reason)
    elif book.inbox:
        _take_in(ctx, experiment, book)
    elif book.shut and book.ended >= experiment.trials:
        _end(ctx, experiment, *verdict(book))


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


def _take_in(ctx: Context, experiment: Experiment, book: Book) -> None:
    """Ask the searcher about the oldest event and carry out its next actions, in one commit."""
    config = config_of(experiment)
    searcher = make_searcher(config)
    state, actions = searcher.on_event(book.state, book.inbox[0].to_event())
    chunk = actions[book.made : book.made + _ACTIONS_A_COMMIT]
    stops = [action for action in chunk if isinstance(action, StopTrial)]
    if stops:
        _stop(ctx, experiment, stops)
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


def _stop(ctx: Context, experiment: Experiment, stops: Sequence[StopTrial]) -> None:
    wanted = {stop.request for stop in stops}
    reason = Reason(code="searcher", text="the searcher has seen enough of it")
    for trial in ctx.store.children(Trial, experiment.id):
        if trial.request in wanted and not is_terminal(trial.state):
            if trial.wanted is TrialState.STOPPED:
                continue
            ctx.attempt(
                partial(end_trial, ctx.store, trial.id, DrainCause.STOP, reason, ctx.clock)
            )


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
