"""The pool port: asking for machines, finding them again, giving them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from burst.core.model import Node


class Liveness(StrEnum):
    """Unknown never leads to a destructive act, and never delays the fence."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Limits:
    """What a pool can ever give."""

    slots_per_node: int
    max_nodes: int


class Pool(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> Limits: ...

    def launch(self, node: Node) -> Node:
        """Start a machine for `node`, whose record (the intent) is already in the store.

        Idempotent by the node's id: a second call for the same id starts nothing more. Returns
        the node with `launched` and its handle.

        Raises:
            Refused: the pool said no; the text says why in the pool's own words.
        """
        ...

    def observe(self, nodes: Sequence[Node]) -> dict[str, Liveness]:
        """Whether each node's machine exists, by node id."""
        ...

    def terminate(self, node: Node) -> None:
        """End the machine and everything on it. Idempotent; gone only when `observe` says DEAD."""
        ...
