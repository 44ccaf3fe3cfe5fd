"""From the cluster file to the pools."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from burst.core.config.cluster import AwsPool as AwsPoolConfig
from burst.core.config.cluster import LocalPool as LocalPoolConfig
from burst.core.config.cluster import StaticPool as StaticPoolConfig
from burst.core.errors import Refused
from burst.core.model import Allocation, Json, Node, Supply
from burst.core.workspace import Workspace
from burst.runner.pools.local import LocalPool
from burst.runner.pools.port import Gone, Limits, Pool
from burst.runner.pools.static import StaticPool


def open_pools(ws: Workspace) -> dict[str, Pool]:
    """The pools of the workspace's cluster by name, in the file's order. Opens nothing yet."""
    environ = {**os.environ, "BURST_STORE": ws.store.url, "BURST_BLOBS": ws.blobs.url}

    def allocations_of(node: Node) -> Collection[str]:
        live = ws.store.live(Allocation, node.pool)
        return {each.id for each in live if any(share.node == node.id for share in each.shares)}

    found: dict[str, Pool] = {}
    for name, config in ws.cluster.pools.items():
        if isinstance(config, LocalPoolConfig):
            found[name] = LocalPool(
                name, ws.home, config, environ=environ, allocations_of=allocations_of
            )
        elif isinstance(config, StaticPoolConfig):
            found[name] = StaticPool(name, config)
        elif isinstance(config, AwsPoolConfig):
            found[name] = _aws(name, config, ws)
        else:
            found[name] = LaterPool(name, config.kind)
    return found


def open_gone(ws: Workspace) -> Gone | None:
    """What the cluster has in AWS of pools that its file does not have any more; None where the
    file has nothing of AWS. Opens nothing yet."""
    cluster = ws.cluster
    known = [name for name, pool in cluster.pools.items() if isinstance(pool, AwsPoolConfig)]
    if cluster.aws is None and not known:
        return None
    from burst.runner.pools.aws.ec2 import Ec2
    from burst.runner.pools.aws.gone import AwsGone

    return AwsGone(cluster.cluster, known, lambda: Ec2(_region(ws)))


def _aws(name: str, config: AwsPoolConfig, ws: Workspace) -> Pool:
    from burst.runner.pools.aws import AwsPool
    from burst.runner.pools.aws.ec2 import Ec2

    return AwsPool(name, config, ws.cluster.cluster, Ec2(_region(ws)))


def _region(ws: Workspace) -> str:
    return ws.cluster.aws.region if ws.cluster.aws is not None else ""


def limits_of(names: Collection[str], pools: Mapping[str, Pool]) -> dict[str, Limits]:
    """What each of the pools `names` can ever give, without those that cannot be used yet. Others
    are not asked: one that is set up wrong, or does not answer, is no matter of theirs.

    Raises:
        Refused: as one of them is set up it can have no machine.
        Unreachable: one of them could not read its types.
    """
    found = [name for name in names if name in pools and not is_later(pools[name])]
    return {name: pools[name].limits for name in found}


def is_later(pool: Pool) -> bool:
    """Whether the cluster file may name it, and this burst cannot use it."""
    return isinstance(pool, LaterPool)


class LaterPool(StaticPool):
    """A pool of a kind that is read and checked, and not acted on yet."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(name, StaticPoolConfig(slots_per_node=1))
        self.limits = Limits(slots_per_node=1, max_nodes=0)
        self._kind = kind

    def ask(
        self, count: int, *, whole: bool, beside: Node | None, supply: Supply, now: float
    ) -> Mapping[str, Json]:
        raise Refused(
            f"pool {self.name} cannot be used yet",
            why=f"pools of kind {self._kind} are accepted in burst.yaml, but not acted on yet",
            mend="use a pool of kind local, static or aws",
        )
