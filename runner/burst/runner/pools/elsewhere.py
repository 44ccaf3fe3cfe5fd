"""Which pools a runner plans with and leaves to another to act for.

In an account with a function, that one starts and ends the machines: whoever submits need not be
allowed to. And no function has a person's own machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from burst.core.config.cluster import AwsPool, ClusterConfig
from burst.core.config.cluster import LocalPool as LocalPoolConfig
from burst.core.config.cluster import StaticPool as StaticPoolConfig
from burst.core.workspace import Workspace
from burst.runner.pools.open import open_gone, open_pools
from burst.runner.pools.port import Gone, Pool
from burst.runner.pools.static import StaticPool

_UNKNOWN_SLOTS = 1024
"""Of a machine that cannot be asked: so many that a trial waits for it as long as it wanted to."""


def left_to_the_function(cluster: ClusterConfig) -> frozenset[str]:
    """Names of the pools that a runner outside the account leaves alone."""
    if not cluster.has_function:
        return frozenset()
    return frozenset(name for name, pool in cluster.pools.items() if isinstance(pool, AwsPool))


def gone_from_here(ws: Workspace) -> Gone | None:
    """Pools that the cluster file does not have any more, where a runner outside the account acts
    for what they have left."""
    return None if ws.cluster.has_function else open_gone(ws)


def left_to_people(cluster: ClusterConfig) -> frozenset[str]:
    """Names of the pools that the function leaves alone."""
    pools = cluster.pools.items()
    return frozenset(name for name, pool in pools if isinstance(pool, LocalPoolConfig))


def pools_of_the_function(ws: Workspace) -> Mapping[str, Pool]:
    """The pools of the cluster as the function sees them: of those that it leaves alone it knows
    the size at the most."""
    own = open_pools(ws)
    for name, config in ws.cluster.pools.items():
        if isinstance(config, LocalPoolConfig):
            slots = config.slots or _UNKNOWN_SLOTS
            own[name] = StaticPool(name, StaticPoolConfig(slots_per_node=slots, max_nodes=1))
    return own
