"""Applying retention: when a trial has a new checkpoint, and once more when all is over."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from pydantic import ValidationError

from burst.core.checkpoints.removal.delete import delete, finish
from burst.core.checkpoints.removal.reasons import RETENTION
from burst.core.checkpoints.removal.retention import retained
from burst.core.checkpoints.removal.uses import users
from burst.core.checkpoints.tiers.own_disk import own_disks
from burst.core.errors import BurstError, Refused
from burst.core.model import Checkpoint, Experiment, Model, Trial
from burst.core.states import is_terminal
from burst.runner.enforce import config_of
from burst.runner.reconcile.context import Context, View

log = logging.getLogger(__name__)


def reconcile_retention(ctx: Context, view: View) -> float | None:
    """Remove what the newest checkpoint of a live trial has made needless, and what an earlier
    pass could not."""
    for id in sorted(ctx.unfinished):
        _finish(ctx, id)
    experiments = {each.id: each for each in view.experiments}
    for trial in view.trials:
        experiment = experiments.get(trial.experiment)
        if experiment is None or ctx.swept.get(trial.id, "") == trial.checkpoint:
            continue
        everyone = config_of(experiment).checkpoints.keep.experiment_best > 0
        trials = ctx.store.children(Trial, experiment.id) if everyone else [trial]
        if _apply(ctx, experiment, trials):
            ctx.swept[trial.id] = trial.checkpoint
    live = {trial.id for trial in view.trials}
    ctx.swept = {id: checkpoint for id, checkpoint in ctx.swept.items() if id in live}
    return None


def retain_all(ctx: Context, experiment: Experiment) -> None:
    """Apply retention to the whole experiment, and finish what removals have left. Idempotent."""
    trials = ctx.store.children(Trial, experiment.id)
    _apply(ctx, experiment, trials)
    for trial in trials:
        records = ctx.store.children(Checkpoint, trial.id)
        if any(record.deleted is not None and _lay_on_a_node(record) for record in records):
            _finish(ctx, trial.id)


def _apply(ctx: Context, experiment: Experiment, trials: Sequence[Trial]) -> bool:
    """Whether everything went that should."""
    config = config_of(experiment)
    there = [
        checkpoint
        for trial in trials
        for checkpoint in ctx.store.children(Checkpoint, trial.id)
        if checkpoint.deleted is None
    ]
    kept_beside = partial(
        retained,
        there,
        config.checkpoints.keep,
        metric=config.searcher.metric,
        smaller_is_better=config.searcher.smaller_is_better,
        open_trials={trial.id for trial in trials if not is_terminal(trial.state)},
    )
    kept = kept_beside(protected=())
    if len(kept) < len(there):  # or it does not matter what else protects them
        kept = kept_beside(protected=_protected(ctx, there))
    return all([_remove(ctx, each) for each in there if each.id not in kept])


def _protected(ctx: Context, there: Sequence[Checkpoint]) -> set[str]:
    """Checkpoints of the registry, and those that live experiments start from."""
    found = {id for model in ctx.store.children(Model, "") for id in model.versions}
    found |= {checkpoint.id for checkpoint in there if users(ctx.store, checkpoint)}
    for experiment in ctx.store.live(Experiment):
        with suppress(ValidationError):  # of a newer burst, which has noted its source
            start = config_of(experiment).start
            found |= {start.checkpoint} if start is not None else set()
    return found


def _remove(ctx: Context, checkpoint: Checkpoint) -> bool:
    try:
        disks = own_disks(ctx.ws.home, checkpoint.trial)
        freed = delete(
            ctx.ws.blobs, ctx.store, checkpoint, because=RETENTION, tiers=disks, clock=ctx.clock
        )
        log.info("checkpoint %s removed, %d bytes freed", checkpoint.id, freed)
    except Refused as error:
        log.warning("checkpoint %s stays: %s", checkpoint.id, error.what)
    except BurstError as error:
        log.warning("checkpoint %s is not removed whole yet: %s", checkpoint.id, error.what)
        ctx.failed = True
        ctx.unfinished.add(checkpoint.trial)
        return False
    return True


def _finish(ctx: Context, trial: str) -> None:
    try:
        finish(ctx.store, trial, [ctx.ws.blobs, *own_disks(ctx.ws.home, trial)])
    except BurstError as error:
        log.warning("files of deleted checkpoints of %s stay for now: %s", trial, error.what)
        ctx.failed = True
        ctx.unfinished.add(trial)
    else:
        ctx.unfinished.discard(trial)


def _lay_on_a_node(record: Checkpoint) -> bool:
    """Then what other checkpoints needed was not always to be read from here."""
    return any(not copy.durable for copy in record.copies)
