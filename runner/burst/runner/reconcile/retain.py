"""Applying retention: when a trial has a new checkpoint, and once more when all is over."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from burst.core.checkpoints.delete import delete
from burst.core.errors import BurstError
from burst.core.model import Checkpoint, Experiment, Model, Trial
from burst.core.states import is_terminal
from burst.runner.enforce import config_of
from burst.runner.reconcile.context import Context, View
from burst.runner.retention import retained

log = logging.getLogger(__name__)


def reconcile_retention(ctx: Context, view: View) -> float | None:
    """Remove what the newest checkpoint of a live trial has made needless."""
    experiments = {each.id: each for each in view.experiments}
    for trial in view.trials:
        experiment = experiments.get(trial.experiment)
        if experiment is None or ctx.swept.get(trial.id, "") == trial.checkpoint:
            continue
        everyone = config_of(experiment).checkpoints.keep.experiment_best > 0
        trials = ctx.store.children(Trial, experiment.id) if everyone else [trial]
        _apply(ctx, experiment, trials)
        ctx.swept[trial.id] = trial.checkpoint
    live = {trial.id for trial in view.trials}
    ctx.swept = {id: checkpoint for id, checkpoint in ctx.swept.items() if id in live}
    return None


def retain_all(ctx: Context, experiment: Experiment) -> None:
    """Apply retention to the whole experiment. Idempotent."""
    _apply(ctx, experiment, ctx.store.children(Trial, experiment.id))


def _apply(ctx: Context, experiment: Experiment, trials: Sequence[Trial]) -> None:
    config = config_of(experiment)
    there = [
        checkpoint
        for trial in trials
        for checkpoint in ctx.store.children(Checkpoint, trial.id)
        if checkpoint.deleted is None
    ]
    if not there:
        return
    kept = retained(
        there,
        config.checkpoints.keep,
        metric=config.searcher.metric,
        smaller_is_better=config.searcher.smaller_is_better,
        open_trials={trial.id for trial in trials if not is_terminal(trial.state)},
        protected=_protected(ctx),
    )
    for checkpoint in there:
        if checkpoint.id not in kept:
            _remove(ctx, checkpoint)


def _protected(ctx: Context) -> set[str]:
    """Checkpoints of the registry, and those that live experiments start from."""
    found = {id for model in ctx.store.children(Model, "") for id in model.versions}
    for experiment in ctx.store.live(Experiment):
        start = config_of(experiment).start
        found |= {start.checkpoint} if start is not None else set()
    return found


def _remove(ctx: Context, checkpoint: Checkpoint) -> None:
    try:
        freed = delete(ctx.ws.blobs, ctx.store, checkpoint, clock=ctx.clock)
        log.info("checkpoint %s removed, %d bytes freed", checkpoint.id, freed)
    except BurstError as error:
        log.warning("checkpoint %s stays: %s", checkpoint.id, error.what)
