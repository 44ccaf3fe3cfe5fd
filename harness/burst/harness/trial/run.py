"""A trial class, trained as its launch says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from burst.core.config.experiment import ExperimentConfig
from burst.core.launch import LaunchSpec, Outcome
from burst.harness import determinism
from burst.harness.connect import asked_by, launch_link, meet, open_engine, open_session
from burst.harness.distributed import Place
from burst.harness.entrypoint import resolve
from burst.harness.leaving import leave_badly, leave_well
from burst.harness.loading import loading
from burst.harness.searching import Search
from burst.harness.session import Session
from burst.harness.settings import device_of, max_length, needs_metric
from burst.harness.trial.context import PyTorchTrialContext, Setting
from burst.harness.trial.goal import Goal
from burst.harness.trial.interval import Conditions
from burst.harness.trial.trainer import Trainer
from burst.harness.trial.trial import PyTorchTrial, evaluates_batches


def run_trial(spec: LaunchSpec, terminated: Callable[[], bool]) -> None:
    """Train the class that the experiment's entrypoint names, and say how that ended.

    What was reported is durable when this returns. When it raises, what was reported before is
    stored if the store answers soon.
    """
    config = ExperimentConfig.model_validate(spec.config)
    determinism.prepare(config.reproducibility.mode, spec.threads)
    trial_class = resolve(str(config.entrypoint), spec.path / "code")
    evaluates_batches(trial_class)
    max_length(config)
    with loading():
        import_module("torch._dynamo")  # every optimizer does so at its first step
    session = connect(spec, config, terminated)
    try:
        outcome = train(spec, config, trial_class, session)
        leave_well(session, spec, outcome)
    except BaseException as error:
        determinism.explain(error)
        leave_badly(session, spec, error)
        raise


def connect(spec: LaunchSpec, config: ExperimentConfig, terminated: Callable[[], bool]) -> Session:
    """This rank's session, with checkpoints. Collective."""
    start = config.start
    weights_only = start is not None and start.what == "weights"
    link = replace(launch_link(spec), weights_only=weights_only)
    session = open_session(
        link,
        meet(device_of(spec, Place.from_environment())),
        asked=asked_by(spec, terminated),
        grace=config.drain_grace,
    )
    session.progress.search = Search.of(config)
    session.conditions = Conditions(spec.seconds_between_losses, spec.early_checkpoint)
    session.engine = open_engine(link, session)
    return session


def train(
    spec: LaunchSpec, config: ExperimentConfig, trial_class: type[PyTorchTrial], session: Session
) -> Outcome:
    if config.reproducibility.mode != "off":
        determinism.seed_all(spec.seed)
    context = PyTorchTrialContext(setting_of(spec, config), session)
    goal = Goal(
        metric=config.searcher.metric,
        smaller_is_better=config.searcher.smaller_is_better,
        policy=config.checkpoints.policy,
        needed=needs_metric(config),
        at_start=config.validate_.at_start,
    )
    return Trainer(trial_class(context), context).fit(
        checkpoint_period=config.checkpoints.every,
        validation_period=config.validate_.every,
        max_length=max_length(config),
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
        start=config.start,
    )
