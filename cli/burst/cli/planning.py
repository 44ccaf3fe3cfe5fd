"""What `burst run` is about to do: how many trials, with how many slots, where."""

from __future__ import annotations

from dataclasses import dataclass

from burst.cli.shapes import PlanJson
from burst.core.config.cluster import ClusterConfig
from burst.core.config.experiment import (
    AdaptiveAshaSearcher,
    AshaSearcher,
    ExperimentConfig,
    GridSearcher,
    RandomSearcher,
    SingleSearcher,
    WarmStart,
)
from burst.core.config.hparams import grid_size
from burst.core.model import Code
from burst.runner.pools.choice import pools_for


@dataclass(frozen=True)
class Plan:
    """The work of an experiment before it is submitted."""

    name: str
    searcher: str
    trials: int
    at_once: int
    """Trials that may run at the same time, as far as the search and `max_slots` say."""
    slots_per_trial: int
    length: str
    """Of each trial at most; empty where the trial's own code says."""
    metric: str
    smaller_is_better: bool
    pools: tuple[str, ...]
    pool_kinds: tuple[str, ...]
    entrypoint: str
    validate: str
    checkpoints: str
    start: str
    """Where trials begin; empty where they begin anew."""
    code: Code
    folder: str


def plan_of(config: ExperimentConfig, cluster: ClusterConfig, code: Code, folder: str) -> Plan:
    """The plan of an experiment that was read and checked; pure."""
    searcher = config.searcher
    trials = trials_of(config)
    pools = tuple(pools_for(config, cluster))
    length = searcher.max_length
    every = config.checkpoints.every
    validate = config.validate_.every
    entrypoint = config.entrypoint
    return Plan(
        name=config.name,
        searcher=searcher.name,
        trials=trials,
        at_once=_at_once(config, trials),
        slots_per_trial=config.resources.slots_per_trial,
        length=str(length) if length else "",
        metric=searcher.metric,
        smaller_is_better=searcher.smaller_is_better,
        pools=pools,
        pool_kinds=tuple(cluster.pools[p].kind if p in cluster.pools else "?" for p in pools),
        entrypoint=entrypoint if isinstance(entrypoint, str) else " ".join(entrypoint),
        validate=f"every {validate}" if validate else "at the end",
        checkpoints=f"every {every}" if every and every != "auto" else str(every or "at the end"),
        start=_start(config.start),
        code=code,
        folder=folder,
    )


def _start(start: WarmStart | None) -> str:
    if start is None:
        return ""
    what = "everything" if start.what == "everything" else "the weights"
    fitting = " that fit" if start.partial else ""
    return f"{what}{fitting} of {start.checkpoint}"


def trials_of(config: ExperimentConfig) -> int:
    """How many trials the search makes, at most."""
    searcher = config.searcher
    if isinstance(searcher, SingleSearcher):
        return 1
    if isinstance(searcher, GridSearcher):
        return grid_size(config.hyperparameters)
    return searcher.max_trials


def _at_once(config: ExperimentConfig, trials: int) -> int:
    searcher = config.searcher
    most = trials
    if isinstance(searcher, GridSearcher | RandomSearcher | AshaSearcher | AdaptiveAshaSearcher):
        most = min(most, searcher.max_concurrent_trials or most)
    slots = config.resources.max_slots
    if slots is not None and config.resources.slots_per_trial:
        most = min(most, max(1, slots // config.resources.slots_per_trial))
    return most


def plan_json(plan: Plan) -> PlanJson:
    return {
        "type": "plan",
        "name": plan.name,
        "searcher": plan.searcher,
        "trials": plan.trials,
        "at_once": plan.at_once,
        "slots_per_trial": plan.slots_per_trial,
        "length": plan.length or None,
        "metric": plan.metric,
        "smaller_is_better": plan.smaller_is_better,
        "pools": list(plan.pools),
        "entrypoint": plan.entrypoint,
        "start": plan.start or None,
        "code": plan.code.digest,
        "code_size": plan.code.size,
    }
