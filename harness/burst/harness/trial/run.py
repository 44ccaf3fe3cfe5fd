"""A trial class, trained as its launch says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burst.core.config.experiment import (
    AdaptiveAshaSearcher,
    AshaSearcher,
    ExperimentConfig,
)
from burst.core.errors import ConfigError
from burst.core.launch import LaunchSpec, Outcome
from burst.core.length import Length, Unit
from burst.harness import determinism
from burst.harness.connect import connect, device_of
from burst.harness.distributed import Place, leave_gang
from burst.harness.entrypoint import resolve
from burst.harness.session import Session
from burst.harness.trial.context import PyTorchTrialContext, Setting
from burst.harness.trial.loop import Goal
from burst.harness.trial.trainer import Trainer
from burst.harness.trial.trial import evaluates_batches


def run_trial(spec: LaunchSpec, terminated: Callable[[], bool]) -> Outcome:
    """Train the class that the experiment's entrypoint names; returns how that ended.

    What was reported is durable when this returns. When it raises, what was reported before is
    stored if the store answers soon.
    """
    config = ExperimentConfig.model_validate(spec.config)
    determinism.prepare(config.reproducibility.mode, spec.threads)
    trial_class = resolve(str(config.entrypoint), spec.path / "code")
    evaluates_batches(trial_class)
    length = max_length(config)
    session = connect(spec, config, terminated)
    try:
        outcome = _train(spec, config, trial_class, length, session)
    except BaseException:
        if session.reporter is not None:
            session.reporter.end_soon()
        raise
    session.close()
    leave_gang()
    return outcome


def _train(
    spec: LaunchSpec, config: ExperimentConfig, trial_class: Any, length: Length, session: Session
) -> Outcome:
    if config.reproducibility.mode != "off":
        determinism.seed_all(spec.seed)
    context = PyTorchTrialContext(setting_of(spec, config), session)
    searcher = config.searcher
    goal = Goal(
        metric=searcher.metric,
        smaller_is_better=searcher.smaller_is_better,
        policy=config.checkpoints.policy,
        needed=isinstance(searcher, AshaSearcher | AdaptiveAshaSearcher),
        at_start=config.validate_.at_start,
    )
    return Trainer(trial_class(context), context).fit(
        checkpoint_period=config.checkpoints.every,
        validation_period=config.validate_.every,
        max_length=length,
        reporting_period=config.report_every,
        goal=goal,
    )


def setting_of(spec: LaunchSpec, config: ExperimentConfig) -> Setting:
    """What a trial sees of its launch."""
    return Setting(
        hparams=spec.hparams,
        config=spec.config,
        experiment=spec.experiment,
        trial=spec.trial,
        seed=spec.seed,
        device=device_of(spec, Place.from_environment()),
        mode=config.reproducibility.mode,
        optimizations=config.optimizations,
    )


def max_length(config: ExperimentConfig) -> Length:
    """How long the experiment trains each trial.

    Raises:
        ConfigError: if it does not say.
    """
    searcher = config.searcher
    if searcher.max_length is not None:
        return searcher.max_length
    if isinstance(searcher, AshaSearcher | AdaptiveAshaSearcher) and searcher.max_time is not None:
        unit = Unit.EPOCHS if (searcher.time_metric or "").startswith("epoch") else Unit.BATCHES
        return Length(amount=searcher.max_time, unit=unit)
    raise ConfigError(
        "the experiment does not say how long a trial trains",
        mend="add max_length to `searcher`, for example `max_length: 10ep`",
    )
