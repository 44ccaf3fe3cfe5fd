"""A pool of machines that are only remembered, which records every call: for tests and rehearsals.

It behaves as a cloud does at its worst: its machines outlive the runner, answers can be lost, and
the same intent may be sent to it any number of times.
"""

from __future__ import annotations

from collections.abc import Sequence

from burst.core.clock import Clock
from burst.core.errors import Refused
from burst.core.model import Node
from burst.runner.pools.port import Limits, Liveness


class FakePool:
    """Give the same object to several runners, as one cloud serves them all."""

    def __init__(
        self, name: str, clock: Clock, *, slots_per_node: int = 1, max_nodes: int = 1
    ) -> None:
        self.name = name
        self.limits = Limits(slots_per_node, max_nodes)
        self.calls: list[tuple[str, str]] = []
        """What was asked, as (what, node id)."""
        self.machines: dict[str, Liveness] = {}
        """By node id; a machine stays here, dead, after its end."""
        self.refusal = ""
        """If set, launches are refused with these words."""
        self.unclear = False
        """Whether `observe` cannot tell."""
        self._clock = clock

    @property
    def alive(self) -> list[str]:
        return sorted(id for id, state in self.machines.items() if state is Liveness.ALIVE)

    def launch(self, node: Node) -> Node:
        self.calls.append(("launch", node.id))
        if node.id not in self.machines:
            if self.refusal:
                raise Refused(f"pool {self.name} said no", why=self.refusal)
            if len(self.alive) >= self.limits.max_nodes:
                raise Refused(
                    f"pool {self.name} is full", why=f"it has {len(self.alive)} machines"
                )
            self.machines[node.id] = Liveness.ALIVE
        handle = {"machine": node.id}
        return node.model_copy(update={"launched": self._clock.now(), "handle": handle})

    def observe(self, nodes: Sequence[Node]) -> dict[str, Liveness]:
        if self.unclear:
            return {node.id: Liveness.UNKNOWN for node in nodes}
        return {node.id: self.machines.get(node.id, Liveness.DEAD) for node in nodes}

    def terminate(self, node: Node) -> None:
        self.calls.append(("terminate", node.id))
        self.die(node.id)

    def die(self, node: str) -> None:
        """The machine ends, whoever did it."""
        if node in self.machines:
            self.machines[node] = Liveness.DEAD
