"""The training loop: batches, boundaries, and leaving with nothing lost.

After each batch: learning-rate schedulers step, epochs end, and the ranks agree on what to do. At
a boundary, in this order: report training metrics, validate (and checkpoint, if the policy says
so), checkpoint, leave. Whatever is due by the count of batches is due on every rank alike; what
clocks, callbacks and the stop flag decide goes through the agreement.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

from burst.core.errors import BurstError
from burst.core.launch import Outcome
from burst.core.model import ExitKind, Lengths
from burst.harness.agreement import Wish
from burst.harness.data.port import BatchSource
from burst.harness.session import Session
from burst.harness.trial.callbacks import PyTorchCallback
from burst.harness.trial.context import PyTorchTrialContext
from burst.harness.trial.expected import Expected
from burst.harness.trial.goal import Goal, tell_missing
from burst.harness.trial.keeper import Keeper
from burst.harness.trial.last import save_last
from burst.harness.trial.metrics import TrainingMetrics
from burst.harness.trial.schedule import Schedule
from burst.harness.trial.trial import PyTorchTrial
from burst.harness.trial.validation import Validation


@dataclass
class Parts:
    """What the loop drives."""

    trial: PyTorchTrial
    context: PyTorchTrialContext
    session: Session
    source: BatchSource
    metrics: TrainingMetrics
    callbacks: list[PyTorchCallback]
    schedule: Schedule
    validation: Validation
    keeper: Keeper


@contextmanager
def _settled_heap() -> Iterator[None]:
    """Spare the garbage collector what lives as long as training: a whole collection would walk
    all that was imported, and hold steps up for tenths of a second."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Loop:
    def __init__(self, parts: Parts, goal: Goal) -> None:
        self._parts = parts
        self._goal = goal
        self._context = parts.context
        self._session = parts.session
        self._schedule = parts.schedule
        self._epoch = parts.source.batches_per_epoch
        self._told_nan = False
        self._told_goal = False
        self._started = self._session.clock.monotonic()
        self._seconds_before = parts.keeper.seconds
        self._session.progress.metric = goal.metric
        self._session.progress.smaller_is_better = goal.smaller_is_better
        self._session.progress.target_batches = self._schedule.target
        self._session.progress.measure = self.lengths
        self._expected = Expected(self._schedule, self._session.clock)

    def lengths(self) -> Lengths:
        """How far the trial is, now."""
        batches = self._context.batch
        return Lengths(
            batches=batches,
            records=batches * self._parts.source.records_per_batch,
            epochs=batches / self._epoch if self._epoch else 0.0,
            seconds=self._seconds_before + self._session.clock.monotonic() - self._started,
        )

    def run(self, batches: Iterator[Any], finish_restoring: Any) -> Outcome:
        """Train until the length is reached, somebody stops it, or it is asked to drain.

        Args:
            batches: this rank's, from where training stands.
            finish_restoring: called when the first batch has been fetched and nothing random is
                left to happen before training: it puts the random states back.
        """
        why = self._schedule.due(self._context.batch) & Wish.END
        if not why:
            batches = chain([next(batches)], batches)
        finish_restoring()
        now, batch = self._session.clock.monotonic(), self._context.batch
        self._schedule.start(now, batches=batch, fresh=self._parts.keeper.fresh)
        progress = self._session.progress
        progress.training_since = self._session.clock.now()
        progress.checkpoint_interval = self._expected
        if self._goal.at_start and self._context.batch == 0:
            self._validate()
        why |= self._stopped_before()
        if not why:
            with _settled_heap():
                why = self._train(batches)
        return self._leave(why)

    def _stopped_before(self) -> Wish:
        """A stop that a validation asked for, if the checkpoint was written between the two."""
        batch = self._context.batch
        if batch == 0 or self._parts.keeper.validated != batch:
            return Wish(0)
        asked = any(self._context.distributed.allgather(self._context.stop_requested))
        return Wish.STOP if asked else Wish(0)

    def _train(self, batches: Iterator[Any]) -> Wish:
        context, trial, agreement = self._context, self._parts.trial, self._session.agreement
        metrics, schedule, epoch = self._parts.metrics, self._schedule, self._epoch
        several, frequency = context.distributed.size > 1, context.optimizers.frequency
        moving = context.auto_to_device and context.device.type != "cpu"
        chief, clock = self._session.chief, self._session.clock
        boundary = schedule.next_boundary(context.batch)
        # Wishes of before a pause are agreed on with the first batch, as without the pause.
        agreement.poll(self._wishes())
        schedule.pace.start(clock.monotonic())
        stepped = context.batch + frequency - 1  # by then, optimizers have made their states
        for batch in batches:
            index = context.batch
            if epoch and index % epoch == 0:
                self._start_epoch(index // epoch)
            if moving:
                batch = context.to_device(batch)
            if several:
                context.models.sync_gradients((index + 1) % frequency == 0)
            context.optimizers.start_batch()
            with context.autocast():
                returned = trial.train_batch(batch, index // epoch if epoch else 0, index)
            context.experimental.finish_batch()
            metrics.add(index, returned)
            context.batch = done = index + 1
            self._finish_batch(done)
            if index == stepped:
                self._parts.keeper.prepare()
            if chief and schedule.pace.stepped(clock.monotonic(), self._parts.keeper.saving):
                self._parts.keeper.hear()
            agreed = agreement.poll(self._wishes())
            if agreed or done == boundary:
                leaving = self._at_boundary(Wish(agreed) | schedule.due(done))
                if leaving:
                    return leaving
                boundary = schedule.next_boundary(done)
                schedule.pace.start(clock.monotonic())
        return Wish.END

    def _wishes(self) -> int:
        wish = 0
        if self._session.asked():
            wish |= Wish.DRAIN
        if self._context.stop_requested:
            wish |= Wish.STOP
        if self._schedule.timed and self._session.chief:
            now = self._session.clock.monotonic()
            trained = self._seconds_before + now - self._started
            wish |= self._schedule.overdue(now, trained)
        return int(wish)

    def _finish_batch(self, batches: int) -> None:
        for scheduler, wrapped in self._context.schedulers:
            scheduler.after_batch(batches, wrapped.steps, wrapped.stepped)
        if self._epoch and batches % self._epoch == 0:
            self._end_epoch(batches // self._epoch)
        if self._parts.metrics.nan is not None:
            self._tell_nan()

    def _start_epoch(self, epoch: int) -> None:
        for callback in self._parts.callbacks:
            callback.on_training_epoch_start(epoch)

    def _end_epoch(self, epochs: int) -> None:
        for scheduler, _ in self._context.schedulers:
            scheduler.after_epoch(epochs)
        for callback in self._parts.callbacks:
            callback.on_training_epoch_end(epochs - 1)

    # --- boundaries -------------------------------------------------------------------------

    def _at_boundary(self, wish: Wish) -> Wish:
        """Do what is due; returns why to leave, if that is due."""
        if self._session.reporter is not None:
            self._session.reporter.check()
        leaving = wish & (Wish.END | Wish.STOP)
        if wish & Wish.REPORT or leaving:
            self._report()
        if wish & Wish.VALIDATE or leaving:
            self._validate()
            if any(self._context.distributed.allgather(self._context.stop_requested)):
                leaving |= Wish.STOP
        if wish & Wish.CHECKPOINT:
            self._checkpoint(dispensable=True)
        self._schedule.did(wish, self._session.clock.monotonic())
        return leaving or wish & Wish.DRAIN

    def _report(self) -> None:
        averages, batches = self._parts.metrics.reduce(self._context.distributed)
        averages = self._context.scales() | averages
        for wrapped in self._context.reducers:
            if wrapped.for_training:
                averages |= wrapped.collect(self._context.distributed)
                wrapped.reducer.reset()
        if averages:
            self._session.report("training", self._context.batch, averages)
        for callback in self._parts.callbacks:
            callback.on_training_workload_end(dict(averages), batches)

    def _validate(self) -> None:
        keeper, batch = self._parts.keeper, self._context.batch
        if keeper.validated == batch:
            return
        with self._expected.validating():
            metrics = self._parts.validation.run()
        keeper.validated, keeper.metrics = batch, metrics
        best = self._session.progress.judge(batch, metrics)
        self._session.report("validation", batch, metrics)
        self._check_goal(metrics)
        if self._goal.policy == "all" or (self._goal.policy == "best" and best):
            self._checkpoint()

    def _check_goal(self, metrics: dict[str, float]) -> None:
        """See that validations report what the search goes by."""
        if self._told_goal or self._goal.metric in metrics:
            return
        self._told_goal = True
        tell_missing(self._goal, metrics, self._session)

    def _checkpoint(self, *, dispensable: bool = False) -> None:
        keeper = self._parts.keeper
        stall = keeper.save(self.lengths(), dispensable=dispensable)
        if stall is not None:
            self._schedule.saved(
                self._context.batch,
                self._session.clock.monotonic(),
                stall,
                durable=keeper.durable_s,
                saving=keeper.saving,
            )

    def _leave(self, why: Wish) -> Outcome:
        if why & (Wish.END | Wish.STOP):
            self._validate()
        durable = save_last(self._parts.keeper, self._session, self._checkpoint)
        if not durable and self._parts.keeper.keeps:
            self._tell_lost(why)
        kind = ExitKind.COMPLETED
        if not why & Wish.END:
            kind = ExitKind.STOPPED if why & Wish.STOP else ExitKind.DRAINED
        return Outcome(kind=kind, batches=self._context.batch, durable=durable)

    def _tell_lost(self, why: Wish) -> None:
        """Nobody may take for saved what is not.

        Raises:
            BurstError: training is over, and its result would be lost.
        """
        text = f"the state at batch {self._context.batch} could not be saved"
        if why & (Wish.END | Wish.STOP):
            raise BurstError(
                f"{text}, so training is not over",
                why="every attempt failed; the trial's log and `burst show` say how",
                mend="free the disk or mend access to it: the trial goes on from its newest "
                "checkpoint",
            )
        self._session.warn(
            "checkpoint.lost", f"{text}; what it trained since its newest checkpoint is repeated"
        )

    def _tell_nan(self) -> None:
        found = self._parts.metrics.nan
        if found is None or self._told_nan:
            return
        self._told_nan = True
        batch, name = found
        self._session.warn(
            "trial.not_finite",
            f"the training metric {name!r} was not finite at batch {batch}; training goes on",
            batch=batch,
            metric=name,
        )
