"""What a rank needs of its gang: agreeing on small Python values."""

from __future__ import annotations

from typing import Any, Protocol


class Collective(Protocol):
    """Collective operations over all ranks: every rank makes the same calls in the same order."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def allgather(self, value: Any) -> list[Any]:
        """Every rank's value (JSON-like), by rank."""
        ...

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value."""
        ...

    def barrier(self) -> None: ...

    def twin(self) -> Collective:
        """A channel of its own between the same ranks, for another thread. Collective."""
        ...


class Solo:
    """The gang of one."""

    rank = 0
    size = 1

    def allgather(self, value: Any) -> list[Any]:
        return [value]

    def broadcast(self, value: Any) -> Any:
        return value

    def barrier(self) -> None:
        return None

    def twin(self) -> Solo:
        return self
