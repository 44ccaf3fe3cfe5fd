"""Machines that join by themselves with `burst agent --pool NAME`."""

from __future__ import annotations

from collections.abc import Sequence

from burst.core.config.cluster import StaticPool as StaticPoolConfig
from burst.core.errors import Refused
from burst.core.model import Node
from burst.runner.pools.port import Limits, Liveness


class StaticPool:
    """Nothing here starts or ends a machine; whether one is alive, only its lease tells."""

    def __init__(self, name: str, config: StaticPoolConfig) -> None:
        self.name = name
        self.limits = Limits(config.slots_per_node, config.max_nodes)

    def launch(self, node: Node) -> Node:
        raise Refused(
            f"pool {self.name} starts no machines",
            why="its machines join by themselves",
            mend=f"start `burst agent --pool {self.name}` on one",
        )

    def observe(self, nodes: Sequence[Node]) -> dict[str, Liveness]:
        return {node.id: Liveness.UNKNOWN for node in nodes}

    def terminate(self, node: Node) -> None:
        """Its agent ends its work by itself when its lease is over; the machine stays."""
