"""What the training loop asks of a source of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from burst.core.model import Json


class BatchSource(Protocol):
    """Batches of one rank, from a position on. The order of samples in the global batch depends on
    seed and epoch only, never on the number of ranks or workers."""

    @property
    def batches_per_epoch(self) -> int | None:
        """Global batches in an epoch; None for a stream whose end is not known."""
        ...

    @property
    def records_per_batch(self) -> int:
        """Records in a whole global batch, over all ranks."""
        ...

    def batches(self, position: int) -> Iterator[Any]:
        """This rank's batches from global batch `position` (counted from 0 over all epochs) on,
        without end, crossing epochs. Costs the same for any position. Draws nothing from the
        global random generators."""
        ...

    def state(self) -> Json:
        """What `position` alone does not tell (a stream's own state); None for map-style data."""
        ...

    def load_state(self, state: Json) -> None: ...

    def fingerprint(self) -> str:
        """Names the data and its order, to notice at resume that they are others."""
        ...

    def close(self) -> None:
        """End workers, within a bounded time."""
        ...
