"""Refusing at once what could never run, with the nearest thing that could."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from burst.core.config.cluster import ClusterConfig
from burst.core.config.experiment import ExperimentConfig
from burst.core.errors import BurstError, ConfigError, NotFound, Refused
from burst.core.units import counted
from burst.runner.pools.choice import pools_for
from burst.runner.pools.port import Limits
from burst.runner.search import make_searcher

MOST_NODES = 80
"""Nodes of one gang: a start writes each of them, and a commit has a limit."""


@dataclass(frozen=True)
class Problem:
    what: str
    why: str = ""
    mend: str = ""
    in_file: bool = False
    """Whether the file is wrong whatever the cluster is."""


def admit(config: ExperimentConfig, cluster: ClusterConfig, limits: Mapping[str, Limits]) -> None:
    """
    Raises:
        ConfigError: the experiment's own settings contradict each other.
        Refused: this cluster can never run it.
    """
    problems = check(config, cluster, limits)
    if not problems:
        return
    kind: type[BurstError] = ConfigError if problems[0].in_file else Refused
    first, *others = problems
    why = "; ".join([first.why, *(f"also: {other.what}" for other in others)]).strip("; ")
    raise kind(first.what, why=why, mend=first.mend)


def check(
    config: ExperimentConfig, cluster: ClusterConfig, limits: Mapping[str, Limits]
) -> list[Problem]:
    """Everything that keeps the experiment from ever running; empty if nothing does. Pure.

    Args:
        limits: by name, of the pools that can be used.
    """
    return [
        *_of_itself(config),
        *_of_the_searcher(config),
        *_of_pools(config, cluster, limits),
    ]


def _of_itself(config: ExperimentConfig) -> list[Problem]:
    slots, most = config.resources.slots_per_trial, config.resources.max_slots
    if most is None or most >= slots:
        return []
    return [
        Problem(
            f"no trial could ever start: it takes {counted(slots, 'slot')}, "
            f"and max_slots is {most}",
            mend=f"set resources.max_slots to {slots} or more, or remove it",
            in_file=True,
        )
    ]


def _of_the_searcher(config: ExperimentConfig) -> list[Problem]:
    try:
        make_searcher(config)
    except BurstError as error:
        in_file = isinstance(error, ConfigError)
        return [Problem(error.what, error.why, error.mend, in_file)]
    return []


def _of_pools(
    config: ExperimentConfig, cluster: ClusterConfig, limits: Mapping[str, Limits]
) -> list[Problem]:
    names = pools_for(config, cluster)
    if not names:
        return [Problem("this cluster has no pool", mend="add one under `pools` in burst.yaml")]
    unknown = [_unknown(name, cluster) for name in names if name not in cluster.pools]
    later = [
        _later(name, cluster) for name in names if name in cluster.pools and name not in limits
    ]
    if unknown:
        return unknown
    usable = [name for name in names if name in limits]
    if not usable:
        return later
    misfits = [_misfit(config, name, limits[name]) for name in usable]
    return [] if None in misfits else [problem for problem in misfits if problem is not None]


def misfit(
    config: ExperimentConfig, cluster: ClusterConfig, limits: Mapping[str, Limits], pool: str
) -> Problem | None:
    """What keeps a trial of the experiment from ever running in `pool`; None if nothing does."""
    if pool not in cluster.pools:
        return _unknown(pool, cluster)
    return _misfit(config, pool, limits[pool]) if pool in limits else _later(pool, cluster)


def check_pool(name: str, cluster: ClusterConfig) -> None:
    """
    Raises:
        NotFound: the cluster has no such pool; it names the nearest.
    """
    if name not in cluster.pools:
        problem = _unknown(name, cluster)
        raise NotFound(problem.what, why=problem.why, mend=problem.mend)


def _unknown(name: str, cluster: ClusterConfig) -> Problem:
    near = difflib.get_close_matches(name, cluster.pools, n=1, cutoff=0.5)
    there = ", ".join(sorted(cluster.pools)) or "none"
    mend = f"did you mean {near[0]!r}?" if near else "name one of them, or add it to burst.yaml"
    return Problem(f"there is no pool {name!r}", f"this cluster has: {there}", mend)


def _later(name: str, cluster: ClusterConfig) -> Problem:
    kind = cluster.pools[name].kind
    return Problem(
        f"pool {name!r} cannot be used yet",
        f"pools of kind {kind} are accepted in burst.yaml, but not acted on yet",
        "use a pool of kind local, static or aws",
    )


def _misfit(config: ExperimentConfig, pool: str, limits: Limits) -> Problem | None:
    slots, size, nodes = config.resources.slots_per_trial, limits.slots_per_node, limits.max_nodes
    most = size * min(nodes, MOST_NODES)
    if slots <= size and nodes:
        return None
    what = f"a trial of {counted(slots, 'slot')} can never run in pool {pool!r}"
    if config.resources.is_single_node or nodes <= 1:
        why = f"its nodes have {counted(size, 'slot')}"
        why += "" if nodes <= 1 else ", and the experiment asks for a single node"
        return Problem(what, why, f"set resources.slots_per_trial to {size} or less")
    if slots > most:
        pool_size = f"{counted(nodes, 'node')} of {counted(size, 'slot')}"
        why = f"it has at most {pool_size}, which is {most} in all"
        return Problem(what, why, f"set resources.slots_per_trial to {most} or less")
    if slots % size:
        below, above = slots // size * size, -(-slots // size) * size
        nearest = f"{below} or {above}" if above <= most else f"{below}"
        why = f"its nodes have {counted(size, 'slot')}, and a gang takes whole nodes"
        return Problem(what, why, f"set resources.slots_per_trial to {nearest}")
    return None
