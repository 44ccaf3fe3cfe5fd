"""Machines that join by themselves with `burst agent --pool NAME`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from burst.core.config.cluster import StaticPool as StaticPoolConfig
from burst.core.errors import Refused
from burst.core.model import Json, Node, Refusal, Supply
from burst.runner.pools.port import Launched, Leftover, Limits, Liveness, Machine


class StaticPool:
    """Nothing here starts or ends a machine; whether one is alive, only its lease tells."""

    def __init__(self, name: str, config: StaticPoolConfig) -> None:
        self.name = name
        self.limits = Limits(config.slots_per_node, config.max_nodes)
        self.look_every = 0.0

    def closed_until(self, supply: Supply, now: float) -> float | None:
        return None

    def ask(
        self, count: int, *, whole: bool, beside: Node | None, supply: Supply, now: float
    ) -> Mapping[str, Json]:
        raise Refused(
            f"pool {self.name} starts no machines",
            why="its machines join by themselves",
            mend=f"start `burst agent --pool {self.name}` on one",
        )

    def launch(self, nodes: Sequence[Node]) -> Launched:
        return Launched()

    def observe(self, nodes: Sequence[Node]) -> dict[str, Liveness]:
        return {node.id: Liveness.UNKNOWN for node in nodes}

    def terminate(self, node: Node) -> None:
        """Its agent ends its work by itself when its lease is over; the machine stays."""

    def machines(self) -> Sequence[Machine]:
        return ()

    def end(self, machine: Machine) -> None:
        """No machine here is burst's to end."""

    def console(self, node: Node) -> str:
        return ""

    def withdrawn(self, node: Node) -> Mapping[str, Refusal]:
        return {}

    def leftovers(self) -> Sequence[Leftover]:
        return ()

    def remove(self, leftover: Leftover) -> bool:
        return True
