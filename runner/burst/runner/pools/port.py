"""The pool port: asking for machines, finding them again, giving them back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from burst.core.errors import Refused
from burst.core.model import Json, Node, Refusal, Supply


class Liveness(StrEnum):
    """Unknown never leads to a destructive act, and never delays the fence."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


class NothingOpen(Refused):
    """Nothing that the pool offers may be asked for now; that passes by itself."""


@dataclass(frozen=True)
class Limits:
    """What a pool can ever give."""

    slots_per_node: int
    max_nodes: int
    boot_within: float = 120.0
    """Seconds from its launch within which a node's agent registers, or the node is given up."""
    costs: bool = False
    """Whether its machines are paid for as long as they run."""


@dataclass(frozen=True)
class Launched:
    """A pool's whole answer to one request."""

    nodes: tuple[Node, ...] = ()
    """Those of the request that have a machine now, with `launched`, `handle`, `cell` and `price`.
    The others have none and get none: asking again would be another request."""
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """By offer, what was refused meanwhile; there may be some although every node has a machine.
    Dates and `tries` are the pool's first guess; who keeps the book sets them by its history."""


@dataclass(frozen=True)
class Machine:
    """A machine that a pool has, whoever knows of it."""

    id: str
    """The pool's own name for it."""
    launch: str
    """The request that it came of, as its tag says; empty if it has none."""
    liveness: Liveness
    age: float | None
    """Seconds since it was made, by the pool's own clock alone; None where it cannot tell."""
    handle: Mapping[str, Json] = field(default_factory=dict)
    """What the handle of its node would be."""


@dataclass(frozen=True)
class Leftover:
    """Something that is no machine, carries the cluster's tags, and may outlive the machines."""

    kind: str
    """`volume`, `network interface`, `placement group`, …"""
    id: str
    age: float | None
    """Seconds since it was made, by the pool's own clock; None where it does not say."""
    launch: str = ""
    """The request that it came of; empty where its tags do not say."""
    pool: str = ""
    """Its pool's name; empty where its tags do not say."""


class Pool(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> Limits:
        """
        Raises:
            Refused: as the pool is set up it can have no machine.
            Unreachable: its types could not be read.
        """
        ...

    @property
    def look_every(self) -> float:
        """Seconds between two looks at its machines that its API bears for ever."""
        ...

    def closed_until(self, supply: Supply, now: float) -> float | None:
        """When something may be asked of it again; None if that is now. No I/O beyond what is
        cached."""
        ...

    def ask(
        self, count: int, *, whole: bool, beside: Node | None, supply: Supply, now: float
    ) -> Mapping[str, Json]:
        """What to ask for `count` machines, to be written with the intent (`Node.ask`).

        Args:
            whole: they are wanted as one gang or not at all.
            beside: a node in whose cell they have to be, if in one.

        Raises:
            NothingOpen: nothing that the pool offers is open now.
            Refused: as the pool is set up it can have no machine.
            Unreachable: its prices or types could not be read.
        """
        ...

    def launch(self, nodes: Sequence[Node]) -> Launched:
        """Start the machines of `nodes`, all of one request, whose records (the intents) are
        already in the store.

        Idempotent by the request (`Node.launch`, or the node's id where it has none): a second
        call, by whomever, starts nothing more and finds what the first has started.

        Raises:
            Unreachable: nothing is known of what happened; call again.
        """
        ...

    def observe(self, nodes: Sequence[Node]) -> dict[str, Liveness]:
        """Whether each node's machine exists, by node id."""
        ...

    def terminate(self, node: Node) -> None:
        """End the machine and everything on it. Idempotent; gone only when `observe` says DEAD."""
        ...

    def machines(self) -> Sequence[Machine]:
        """Every machine that carries the tags of this cluster and pool and has not ended; empty
        where machines carry no tags (local, static)."""
        ...

    def end(self, machine: Machine) -> None:
        """End a machine that no record knows of. Idempotent."""
        ...

    def console(self, node: Node) -> str:
        """The last lines that the machine wrote before it could speak for itself; may be empty."""
        ...

    def withdrawn(self, node: Node) -> Mapping[str, Refusal]:
        """What the end of the node's machine says of the pool's offers, by offer, where its owner
        took it back; empty where it ended for reasons of its own.

        Raises:
            Unreachable: that could not be read.
        """
        ...

    def leftovers(self) -> Sequence[Leftover]:
        """What is the pool's, is no machine, and is used by none."""
        ...

    def remove(self, leftover: Leftover) -> bool:
        """Delete it; False if it is in use after all. Idempotent."""
        ...


class Gone(Protocol):
    """What carries the cluster's tag, and the name of no pool of the cluster file: somebody has
    taken the pool out of the file, or named it anew, while it had machines."""

    def names(self, *, leftovers: bool) -> Collection[str]:
        """The pools that machines there are of; an empty name stands for those that name none.

        Args:
            leftovers: those of what is no machine and is used by none, too.

        Raises:
            Unreachable, Refused: the cloud did not answer, or refused.
        """
        ...

    def pool(self, name: str) -> Pool:
        """A pool of that name, that starts nothing. Nothing is asked."""
        ...
