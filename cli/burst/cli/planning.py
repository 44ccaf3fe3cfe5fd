"""What `burst run` is about to do: how many trials, with how many slots, where."""

from __future__ import annotations

from dataclasses import dataclass

from burst.cli.searches import SearchPlan, brackets_json, search_plan
from burst.cli.shapes import PlanJson
from burst.core.config.cluster import ClusterConfig
from burst.core.config.experiment import ExperimentConfig, WarmStart
from burst.core.launch import names_class
from burst.core.model import Code
from burst.runner.pools.choice import pools_for


@dataclass(frozen=True)
class Plan:
    """The work of an experiment before it is submitted."""

    name: str
    search: SearchPlan
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

    @property
    def trials(self) -> int:
        """How many the search makes, at most."""
        return self.search.trials


def plan_of(config: ExperimentConfig, cluster: ClusterConfig, code: Code, folder: str) -> Plan:
    """The plan of an experiment that was read and checked; pure."""
    searcher = config.searcher
    search = search_plan(config)
    pools = tuple(pools_for(config, cluster))
    length = searcher.max_length
    every = config.checkpoints.every
    entrypoint = config.entrypoint
    return Plan(
        name=config.name,
        search=search,
        at_once=_at_once(config, search),
        slots_per_trial=config.resources.slots_per_trial,
        length=str(length) if length else "",
        metric=searcher.metric,
        smaller_is_better=searcher.smaller_is_better,
        pools=pools,
        pool_kinds=tuple(cluster.pools[p].kind if p in cluster.pools else "?" for p in pools),
        entrypoint=entrypoint if isinstance(entrypoint, str) else " ".join(entrypoint),
        validate=_validates(config),
        checkpoints=f"every {every}" if every and every != "auto" else str(every or "at the end"),
        start=_start(config.start),
        code=code,
        folder=folder,
    )


def _validates(config: ExperimentConfig) -> str:
    if not names_class(config.entrypoint):
        return "as its command does"
    every = config.validate_.every
    return f"every {every}" if every else "at the end"


def _start(start: WarmStart | None) -> str:
    if start is None:
        return ""
    what = "everything" if start.what == "everything" else "the weights"
    fitting = " that fit" if start.partial else ""
    return f"{what}{fitting} of {start.checkpoint}"


def _at_once(config: ExperimentConfig, search: SearchPlan) -> int:
    most, slots = search.at_once, config.resources.max_slots
    if slots is not None and config.resources.slots_per_trial:
        most = min(most, max(1, slots // config.resources.slots_per_trial))
    return most


def plan_json(plan: Plan) -> PlanJson:
    return {
        "type": "plan",
        "name": plan.name,
        "searcher": plan.search.searcher,
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
        "brackets": brackets_json(plan.search),
    }
