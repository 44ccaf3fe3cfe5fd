"""What a pool's tags find: its machines, and what may outlive them. It needs no settings, and so
serves pools that the cluster file does not have any more, too."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from burst.core.clock import Clock, SystemClock
from burst.core.errors import BurstError
from burst.core.model import Json, Node, Refusal
from burst.runner.pools.aws.ec2 import Ec2, Ec2Error
from burst.runner.pools.aws.fleet import count_of, group_of, withdrawal
from burst.runner.pools.aws.leftovers import find_leftovers, remove_leftover
from burst.runner.pools.aws.machines import (
    Machines,
    as_machines,
    liveness,
    may_be_too_new,
    not_visible,
)
from burst.runner.pools.port import Leftover, Liveness, Machine

log = logging.getLogger(__name__)

BOOT_WITHIN_S = 900.0
_LOOK_EVERY_S = 5.0
_CONSOLE_CHARACTERS = 8000


class Tagged:
    """The machines of one pool in one region, watched and ended."""

    def __init__(self, name: str, cluster: str, ec2: Ec2, clock: Clock | None = None) -> None:
        """
        Args:
            name: the pool's; empty for what carries the cluster's tag and no pool's.
            cluster: the cluster's name, by which all that it owns is tagged.
        """
        self.name = name
        self.look_every = _LOOK_EVERY_S
        self._cluster = cluster
        self._ec2 = ec2
        self._clock = clock or SystemClock()
        self._machines = Machines(cluster, name or None, ec2)

    def observe(self, nodes: Sequence[Node]) -> dict[str, Liveness]:
        if not nodes:
            return {}
        try:
            sight = self._machines.look()
        except BurstError as error:
            log.warning("the machines of pool %s cannot be seen: %s", self.name, error)
            return {node.id: Liveness.UNKNOWN for node in nodes}
        now = self._clock.now()
        return {node.id: liveness(node, sight, now) for node in nodes}

    def terminate(self, node: Node) -> None:
        id = str(node.handle.get("instance", ""))
        ids = [id] if id else self._only_machine_of(node)
        ended = self._machines.end(ids)
        state = ended.states.get(id)
        if id and state is None and may_be_too_new(node, ended.date, self._clock.now()):
            raise not_visible(node)
        group = group_of(node.ask, self._cluster, node.launch or node.id)
        if group and id and state in (None, "terminated"):
            self._machines.delete_group(group)

    def machines(self) -> Sequence[Machine]:
        return as_machines(self._machines.look())

    def end(self, machine: Machine) -> None:
        self._machines.end([machine.id])

    def console(self, node: Node) -> str:
        id = str(node.handle.get("instance", ""))
        if not id:
            return ""
        try:
            answer = self._console(id)
        except Ec2Error as error:
            log.debug("no console of node %s: %s", node.id, error)
            return ""
        return str(answer.get("Output") or "")[-_CONSOLE_CHARACTERS:]

    def withdrawn(self, node: Node) -> Mapping[str, Refusal]:
        id = str(node.handle.get("instance", ""))
        seen = self._machines.look(node.launch or node.id).instances.get(id)
        return withdrawal(seen, self._clock.now()) if seen is not None else {}

    def leftovers(self) -> list[Leftover]:
        """Disks, network interfaces and placement groups of this pool that no machine uses.

        Raises:
            Unreachable, Refused: EC2 did not answer, or refused.
        """
        used = {each.group for each in self._machines.look().instances.values() if each.alive}
        return find_leftovers(self._ec2, self._cluster, self.name or None, used)

    def remove(self, leftover: Leftover) -> bool:
        """Delete it; False if it is in use after all. Idempotent.

        Raises:
            Unreachable, Refused: EC2 did not answer, or refused.
        """
        return remove_leftover(self._ec2, leftover)

    def _only_machine_of(self, node: Node) -> list[str]:
        """The machines of a node that knows none, where its request was for it alone; those of
        others are not told apart from its own, and are for the sweeper."""
        if not node.ask or count_of(node.ask) > 1:
            return []
        seen = self._machines.look(node.launch or node.id).instances
        return [each.id for each in seen.values() if each.alive]

    def _console(self, id: str) -> Mapping[str, Json]:
        try:
            return self._ec2.call("get_console_output", InstanceId=id, Latest=True)
        except Ec2Error:
            return self._ec2.call("get_console_output", InstanceId=id)  # not all have the latest
