"""Pools that the cluster file does not have any more, found by what they have left in AWS."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from burst.core.clock import Clock
from burst.core.errors import Refused
from burst.core.model import Json, Node, Supply
from burst.runner.pools.aws.ec2 import Ec2
from burst.runner.pools.aws.fleet import pair
from burst.runner.pools.aws.leftovers import find_leftovers
from burst.runner.pools.aws.machines import Machines
from burst.runner.pools.aws.tagged import BOOT_WITHIN_S, Tagged
from burst.runner.pools.port import Launched, Limits


class GonePool(Tagged):
    """Watches and ends the machines of a pool that is gone, and starts none."""

    limits = Limits(slots_per_node=0, max_nodes=0, boot_within=BOOT_WITHIN_S, costs=True)

    def closed_until(self, supply: Supply, now: float) -> float | None:
        return None

    def ask(
        self, count: int, *, whole: bool, beside: Node | None, supply: Supply, now: float
    ) -> Mapping[str, Json]:
        raise Refused(f"pool {self.name} is not in the cluster file any more")

    def launch(self, nodes: Sequence[Node]) -> Launched:
        """The machines that a request has brought while the pool was there. One that is not listed
        yet is found by its tag later, and nobody answers for it then."""
        first = min(nodes, key=lambda node: node.id)
        seen = self._machines.look(first.launch or first.id).instances
        return Launched(tuple(pair(nodes, seen.values(), self._clock.now())))


class AwsGone:
    """All that the cluster has in a region and that is of none of the pools in its file."""

    def __init__(
        self,
        cluster: str,
        known: Collection[str],
        ec2: Callable[[], Ec2],
        clock: Clock | None = None,
    ) -> None:
        """
        Args:
            known: names of the pools that the file has.
            ec2: makes what each pool asks with.
        """
        self._cluster = cluster
        self._known = frozenset(known)
        self._new_ec2 = ec2
        self._ec2 = ec2()
        self._clock = clock

    def names(self, *, leftovers: bool) -> Collection[str]:
        sight = Machines(self._cluster, "", self._ec2).look()
        living = [each for each in sight.instances.values() if each.alive]
        names = {each.pool for each in living}
        if leftovers:
            used = {each.group for each in living}
            names |= {each.pool for each in find_leftovers(self._ec2, self._cluster, "", used)}
        return names - self._known

    def pool(self, name: str) -> GonePool:
        return GonePool(name, self._cluster, self._new_ec2(), self._clock)
