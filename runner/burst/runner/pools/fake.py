"""A pool of machines that are only remembered, which records every call: for tests and rehearsals.

It behaves as a cloud does at its worst: its machines outlive the runner, answers can be lost, and
the same intent may be sent to it any number of times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from burst.core.clock import Clock
from burst.core.model import Json, Node, Refusal, RefusalKind, Supply
from burst.runner.pools.port import Launched, Leftover, Limits, Liveness, Machine
from burst.runner.supply import EVERY_OFFER, closed_until


class FakePool:
    """Give the same object to several runners, as one cloud serves them all."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        *,
        slots_per_node: int = 1,
        max_nodes: int = 1,
        costs: bool = False,
    ) -> None:
        self.name = name
        self.limits = Limits(slots_per_node, max_nodes, costs=costs)
        self.look_every = 0.0
        self.calls: list[tuple[str, str]] = []
        """What was asked, as (what, node id)."""
        self.made: dict[str, Liveness] = {}
        """By node id; a machine stays here, dead, after its end."""
        self.refusal = ""
        """If set, launches are refused with these words."""
        self.unclear = False
        """Whether `observe` cannot tell."""
        self.taken_back: dict[str, Mapping[str, Refusal]] = {}
        """What is said of the end of a machine that was taken away, by node id."""
        self._clock = clock
        self.left: list[Leftover] = []
        """What is no machine and is used by none."""
        self._launches: dict[str, tuple[str, float]] = {}

    @property
    def alive(self) -> list[str]:
        return sorted(id for id, state in self.made.items() if state is Liveness.ALIVE)

    def closed_until(self, supply: Supply, now: float) -> float | None:
        return closed_until(supply, now)

    def ask(
        self, count: int, *, whole: bool, beside: Node | None, supply: Supply, now: float
    ) -> Mapping[str, Json]:
        return {"count": count, "cell": beside.cell if beside is not None else ""}

    def launch(self, nodes: Sequence[Node]) -> Launched:
        started, refusals = [], {}
        for node in nodes:
            self.calls.append(("launch", node.id))
            if node.id not in self.made:
                full = len(self.alive) >= self.limits.max_nodes
                why = self.refusal or (f"it has {len(self.alive)} machines" if full else "")
                if why:
                    refusals[EVERY_OFFER] = self._refusal(why)
                    continue
                self.make(node.id, node.launch)
            found = {
                "launched": self._clock.now(),
                "handle": {"machine": node.id},
                "cell": "one" if self.limits.costs else "",
            }
            started.append(node.model_copy(update=found))
        return Launched(tuple(started), refusals)

    def observe(self, nodes: Sequence[Node]) -> dict[str, Liveness]:
        if self.unclear:
            return {node.id: Liveness.UNKNOWN for node in nodes}
        return {node.id: self.made.get(node.id, Liveness.DEAD) for node in nodes}

    def terminate(self, node: Node) -> None:
        self.calls.append(("terminate", node.id))
        self.die(node.id)

    def machines(self) -> Sequence[Machine]:
        found = []
        for id in self.alive:
            launch, made = self._launches[id]
            age = self._clock.now() - made
            found.append(Machine(id, launch, Liveness.ALIVE, age, {"machine": id}))
        return found

    def end(self, machine: Machine) -> None:
        self.calls.append(("end", machine.id))
        self.die(machine.id)

    def console(self, node: Node) -> str:
        return f"the console of {node.id}" if node.id in self.made else ""

    def withdrawn(self, node: Node) -> Mapping[str, Refusal]:
        return self.taken_back.get(node.id, {})

    def leftovers(self) -> Sequence[Leftover]:
        return list(self.left)

    def remove(self, leftover: Leftover) -> bool:
        self.calls.append(("remove", leftover.id))
        self.left = [each for each in self.left if each != leftover]
        return True

    def make(self, id: str, launch: str) -> None:
        """A machine comes to be, whether or not anybody has a record of it."""
        self.made[id] = Liveness.ALIVE
        self._launches[id] = (launch, self._clock.now())

    def die(self, node: str) -> None:
        """The machine ends, whoever did it."""
        if node in self.made:
            self.made[node] = Liveness.DEAD

    def _refusal(self, why: str) -> Refusal:
        now, text = self._clock.now(), f"pool {self.name} said no ({why})"
        return Refusal(kind=RefusalKind.BUG, code="failed", text=text, at=now, until=now + 3.0)
