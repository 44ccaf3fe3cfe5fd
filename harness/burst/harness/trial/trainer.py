"""`Trainer`: a trial, trained."""

from __future__ import annotations

from typing import Any, Literal

from burst.core.errors import ConfigError
from burst.core.launch import Outcome
from burst.core.length import Length, Unit
from burst.harness import envelope
from burst.harness.data.port import BatchSource
from burst.harness.errors import TrialError
from burst.harness.trial.callbacks import PyTorchCallback, overrides
from burst.harness.trial.context import PyTorchTrialContext
from burst.harness.trial.goal import Goal, Policy
from burst.harness.trial.interval import Conditions
from burst.harness.trial.keeper import Keeper
from burst.harness.trial.loop import Loop, Parts
from burst.harness.trial.metrics import TrainingMetrics
from burst.harness.trial.packed import check_packed
from burst.harness.trial.ruled import ruled
from burst.harness.trial.schedule import Periods, Schedule
from burst.harness.trial.state import TrialState
from burst.harness.trial.trial import PyTorchTrial, evaluates_batches
from burst.harness.trial.units import Batch, Scale, TrainUnit, length_of, period_of
from burst.harness.trial.validation import Validation

HUNDRED_BATCHES = Batch(100)


class Trainer:
    """Trains a PyTorchTrial: in an experiment, or in a script of its own.

    with burst.harness.pytorch_init(hparams={"lr": 0.1}) as context:
        Trainer(MyTrial(context), context).fit(max_length=Epoch(3))
    """

    def __init__(self, trial: PyTorchTrial, context: PyTorchTrialContext) -> None:
        self._by_batch = evaluates_batches(type(trial))
        self._trial = trial
        self._context = context

    def fit(  # noqa: PLR0913 - the names that people who come from Determined know
        self,
        checkpoint_period: TrainUnit | Literal["auto"] | None = None,
        validation_period: TrainUnit | None = None,
        max_length: TrainUnit | None = None,
        reporting_period: TrainUnit | None = HUNDRED_BATCHES,
        checkpoint_policy: Policy = "best",
        latest_checkpoint: str | None = None,
        step_zero_validation: bool = False,
        test_mode: bool = False,
        profiling_enabled: bool = False,
        *,
        goal: Goal | None = None,
    ) -> Outcome:
        """Train from where the trial's newest checkpoint stands, or from the start, to
        `max_length`; then validate and checkpoint.

        Args:
            checkpoint_period: when to checkpoint; "auto" follows from what checkpoints cost.
            validation_period: when to validate; None is only at the end.
            max_length: how long; a resumed trial counts what it did before.
            reporting_period: how often averaged training metrics are reported.
            checkpoint_policy: which validations are followed by a checkpoint.
            latest_checkpoint: taken for compatibility; the newest one is found without it.
            step_zero_validation: validate before the first batch, too.
            test_mode: one batch, one validation, one checkpoint.
            profiling_enabled: taken for compatibility; hardware is always sampled.
            goal: what the validations are for; given by an experiment.

        Returns:
            how it ended: completed, stopped (early stopping) or drained (asked to leave).

        Raises:
            UsageError: a length or a period is none.
            TrialError, ConfigError, DataError: the trial and its data do not fit together.
            Fenced: a newer allocation owns the trial.
        """
        if test_mode:
            max_length, validation_period, checkpoint_period = Batch(1), None, None
        if max_length is None:
            raise ConfigError("fit needs max_length", mend="for example max_length=Epoch(1)")
        length = length_of(max_length)
        source = self._training_source()
        scale = Scale(source.batches_per_epoch, source.records_per_batch)
        self._context.scale_epoch = scale.epoch
        automatic = checkpoint_period == "auto"
        given_period = None if automatic else checkpoint_period
        periods = Periods(
            report=period_of(reporting_period, scale, "reporting_period"),
            validate=period_of(validation_period, scale, "validation_period"),
            checkpoint=period_of(given_period, scale, "checkpoint_period"),
            auto=automatic,
        )
        session = self._context.session
        schedule = _schedule(periods, length, scale, session.conditions)
        parts = self._parts(source, schedule)
        given = goal or Goal(policy=checkpoint_policy, at_start=step_zero_validation)
        session.outcome = self._run(parts, given)
        return session.outcome

    def _parts(self, source: BatchSource, schedule: Schedule) -> Parts:
        context, named = self._context, self._callbacks()
        callbacks = list(named.values())
        keep = any(overrides(each, "on_training_workload_end") for each in callbacks)
        metrics = TrainingMetrics(keep_batches=keep)
        state = TrialState(context, named, metrics, source)
        surroundings = self._surroundings(source.fingerprint())
        validation = Validation(self._trial, context, callbacks, self._by_batch)
        if context.get_data_config().get("validate"):
            validation.prepare()  # rows that break a rule are told now, not after an epoch
        return Parts(
            self._trial,
            context,
            context.session,
            source,
            metrics,
            callbacks,
            schedule,
            validation,
            Keeper(state, context.session, surroundings, context.setting.start),
        )

    def _run(self, parts: Parts, goal: Goal) -> Outcome:
        context, callbacks = self._context, parts.callbacks
        try:
            context.models.train()
            checkpoint = parts.keeper.restore()
            for callback in callbacks:
                callback.on_trial_startup(context.batch, checkpoint)
            for callback in callbacks:
                callback.on_training_start()
            seed = None if context.setting.mode == "off" else context.get_trial_seed()
            loop = Loop(parts, goal)
            batches = parts.source.batches(context.batch)
            return loop.run(batches, lambda: parts.keeper.finish_restoring(seed))
        finally:
            parts.source.close()
            for callback in callbacks:
                callback.on_trial_shutdown()

    def _training_source(self) -> BatchSource:
        loader = self._trial.build_training_data_loader()
        if not hasattr(loader, "training_source"):
            raise TrialError(
                f"build_training_data_loader returned {type(loader).__name__}",
                mend="return a burst.harness.DataLoader; it takes torch's arguments",
            )
        ranks = self._context.distributed
        check_packed(loader, self._context)
        loader = ruled(loader, self._context, "training rows")
        source: BatchSource = loader.training_source(
            seed=self._context.get_trial_seed(), rank=ranks.rank, ranks=ranks.size
        )
        return source

    def _callbacks(self) -> dict[str, PyTorchCallback]:
        callbacks = self._trial.build_callbacks()
        for name, callback in callbacks.items():
            if not isinstance(callback, PyTorchCallback):
                raise TrialError(
                    f"the callback {name!r} is {type(callback).__name__}",
                    mend="build_callbacks returns a dict of names and PyTorchCallback instances",
                )
        return callbacks

    def _surroundings(self, fingerprint: str) -> dict[str, Any]:
        context = self._context
        return envelope.capture(
            ranks=context.distributed.size,
            device=str(context.device),
            optimizers=[wrapped.optimizer for wrapped in context.optimizers],
            data=fingerprint,
            seed=context.get_trial_seed(),
            mode=context.setting.mode,
        )


def _schedule(periods: Periods, length: Length, scale: Scale, conditions: Conditions) -> Schedule:
    seconds = length.amount if length.unit is Unit.SECONDS else None
    target = scale.batches(length)
    return Schedule(periods, target=target, seconds=seconds, conditions=conditions)
