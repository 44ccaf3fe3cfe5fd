"""Which rows make which batch of which rank: pure functions of seed, epoch and position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from burst.harness.data.permutation import Permutation, Rows
from burst.harness.data.randomness import derive

_LOOKED_UP = 1 << 13
"""Rows looked up at once: what entering an order costs, well under a millisecond."""


class Ticket(NamedTuple):
    """One batch to fetch for one rank."""

    epoch: int
    first: int
    """The place of the batch's first row in the epoch's order; the others follow it."""
    rows: Rows


class Order(Protocol):
    """An epoch's order of rows."""

    @property
    def size(self) -> int: ...

    def at(self, epoch: int, places: Rows) -> Rows:
        """The rows at these places of the epoch's order."""
        ...


class Sequential:
    """The dataset's own order, in every epoch."""

    def __init__(self, size: int) -> None:
        self.size = size

    def at(self, epoch: int, places: Rows) -> Rows:
        return places


class Shuffled:
    """Another random order in every epoch."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self._seed = seed
        self._epoch = -1
        self._permutation: Permutation | None = None

    def at(self, epoch: int, places: Rows) -> Rows:
        if self._permutation is None or epoch != self._epoch:
            self._epoch = epoch
            self._permutation = Permutation(self.size, derive(self._seed, "order", epoch))
        return self._permutation.at(places)


class Deal(Protocol):
    """Deals an epoch's global batches to the ranks."""

    @property
    def batches_per_epoch(self) -> int: ...

    @property
    def records_per_batch(self) -> int: ...

    def ticket(self, epoch: int, batch: int) -> Ticket: ...


class RowDeal:
    """Deals rows: global batch `b` is the order's slice of `batch_size * ranks` rows from
    `b * batch_size * ranks` on, and the ranks take it in contiguous parts.

    The last batch of an epoch may be partial (unless `drop_last`): its rows are split as evenly
    as they can be, so the ranks' parts differ by one row at most. Where it has fewer rows than
    there are ranks, its rows are dealt around, because a rank without a batch would leave the
    others waiting; that is the only case in which a row is seen twice in an epoch.
    """

    def __init__(
        self, order: Order, *, batch_size: int, rank: int, ranks: int, drop_last: bool
    ) -> None:
        self.records_per_batch = batch_size * ranks
        self._whole, rest = divmod(order.size, self.records_per_batch)
        self.batches_per_epoch = self._whole + (1 if rest and not drop_last else 0)
        self._order = order
        self._rank = rank
        self._ranks = ranks
        self._batch_size = batch_size
        # This rank's rows of several batches are looked up at once, and only this rank's.
        self._together = max(1, _LOOKED_UP // batch_size)
        self._looked_up = (-1, -1)
        self._rows: Rows = np.empty((0, batch_size), np.int64)

    def ticket(self, epoch: int, batch: int) -> Ticket:
        start = batch * self.records_per_batch
        if batch >= self._whole:
            low, high = part(self._order.size - start, self._rank, self._ranks)
            places = np.arange(start + low, start + high, dtype=np.int64)
            return Ticket(epoch, start + low, self._order.at(epoch, places))
        window, number = divmod(batch, self._together)
        if self._looked_up != (epoch, window):
            self._rows = self._look_up(epoch, window * self._together)
            self._looked_up = epoch, window
        return Ticket(epoch, start + self._rank * self._batch_size, self._rows[number])

    def _look_up(self, epoch: int, first: int) -> Rows:
        batches = np.arange(first, min(first + self._together, self._whole), dtype=np.int64)
        starts = batches * self.records_per_batch + self._rank * self._batch_size
        places = starts[:, None] + np.arange(self._batch_size, dtype=np.int64)
        return self._order.at(epoch, places.ravel()).reshape(places.shape)


def part(size: int, rank: int, ranks: int) -> tuple[int, int]:
    """Which of a batch's `size` rows a rank takes: from the first to before the second."""
    if size < ranks:
        return rank % size, rank % size + 1
    return size * rank // ranks, size * (rank + 1) // ranks


def tickets_from(deal: Deal, position: int) -> Iterator[Ticket]:
    """From global batch `position` on, over all epochs, without end."""
    epoch, batch = divmod(position, deal.batches_per_epoch)
    while True:
        yield deal.ticket(epoch, batch)
        batch += 1
        if batch == deal.batches_per_epoch:
            epoch, batch = epoch + 1, 0


def evaluation_tickets(deal: Deal, rank: int, ranks: int) -> Iterator[Ticket]:
    """One pass: the batches of a single rank, dealt in turn, so that every row is seen once and a
    batch holds the same rows for any number of ranks. `deal` is a deal to one rank."""
    for batch in range(rank, deal.batches_per_epoch, ranks):
        yield deal.ticket(0, batch)
