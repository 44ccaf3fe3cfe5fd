"""Carrying an experiment's state over to its trials. Called by commands and by reconcile alike.

A command writes the experiment first. What it does not get to, because it was interrupted or a
trial was started meanwhile, the next reconcile does in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from burst.core.clock import Clock
from burst.core.config.experiment import ExperimentConfig
from burst.core.model import DrainCause, Experiment, Json, Trial
from burst.core.states import ExperimentState, Reason, TrialState, is_terminal
from burst.core.store import update
from burst.core.store.port import Store, Write
from burst.runner.endings import settle_trial
from burst.runner.search.book import Book
from burst.runner.wishes import current_allocation, want_ended, want_paused

KILLED = "killed"
"""The code of an experiment's reason that lets its trials no time for a checkpoint."""


def change_trial(
    store: Store, id: str, decide: Callable[[Trial], Sequence[Write]], clock: Clock
) -> bool:
    """Read a trial, decide, commit, and again where someone was faster; whether it was written."""
    before: list[int] = []

    def change(trial: Trial) -> Sequence[Write]:
        writes = decide(trial)
        before.append(len(writes))
        return writes

    update(store, Trial, id, change, clock=clock)
    return before[-1] > 0


def enforce(store: Store, experiment: Experiment, live: Sequence[Trial], clock: Clock) -> int:
    """Drain or end what `experiment` must not run any more; how many trials were changed.

    Args:
        live: its trials that are live, as far as the caller has read.
    """
    if experiment.state is ExperimentState.PAUSED:
        running = (t for t in live if t.state is TrialState.RUNNING and t.wanted is None)
        return sum(pause_trial(store, each.id, experiment, clock) for each in running)
    if experiment.state is not ExperimentState.STOPPING:
        return 0
    open_trials = list(live)
    if experiment.trials - Book.of(experiment).ended > len(open_trials):
        # Paused trials are not live, so they are found among all of the experiment's.
        everyone = store.children(Trial, experiment.id)
        open_trials = [trial for trial in everyone if not is_terminal(trial.state)]
    cause = DrainCause.KILL if experiment.reason.code == KILLED else DrainCause.CANCEL
    return sum(end_trial(store, each.id, cause, experiment.reason, clock) for each in open_trials)


def pause_trial(store: Store, id: str, experiment: Experiment, clock: Clock) -> bool:
    """Ask a running trial to pause. Idempotent."""

    def decide(trial: Trial) -> Sequence[Write]:
        allocation = current_allocation(store, trial)
        reason = Reason(code="paused", text="paused by a person")
        return want_paused(trial, allocation, reason, clock.now(), grace_of(experiment))

    return change_trial(store, id, decide, clock)


def end_trial(store: Store, id: str, cause: DrainCause, reason: Reason, clock: Clock) -> bool:
    """End a trial: at once where it has no allocation, by a drain where it has. Idempotent."""

    def decide(trial: Trial) -> Sequence[Write]:
        if is_terminal(trial.state):
            return ()
        experiment = store.get(Experiment, trial.experiment)
        if trial.state in (TrialState.WAITING, TrialState.PAUSED):
            to = TrialState.STOPPED if cause is DrainCause.STOP else TrialState.CANCELLED
            return settle_trial(trial, to, reason, clock.now(), experiment=experiment)
        allocation = current_allocation(store, trial)
        grace = grace_of(experiment)
        return want_ended(trial, allocation, cause, reason, clock.now(), grace)

    return change_trial(store, id, decide, clock)


def grace_of(experiment: Experiment) -> float:
    """Seconds that a drain of its trials may take."""
    return config_of(experiment).drain_grace


_configs: dict[str, tuple[Mapping[str, Json], ExperimentConfig]] = {}
_MOST_CONFIGS = 256


def config_of(experiment: Experiment) -> ExperimentConfig:
    """The experiment's settings, read once: they never change after it was submitted.

    An id alone does not name them: two stores that one process works on may hold the same id.
    """
    found = _configs.get(experiment.id)
    if found is not None and found[0] == experiment.config:
        return found[1]
    config = ExperimentConfig.model_validate(experiment.config)
    if len(_configs) >= _MOST_CONFIGS:
        _configs.clear()
    _configs[experiment.id] = (experiment.config, config)
    return config
