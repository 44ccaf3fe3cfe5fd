"""Fetches the rows of one ticket and makes them a batch, in whatever process it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import Subset, default_convert

from burst.harness.data.collate import stack_rows
from burst.harness.data.order import Ticket
from burst.harness.data.randomness import derive, kept_generators, seed_generators, spread

Collate = Callable[[list[Any]], Any]


class Fetcher:
    """A ticket's batch. Equal tickets give equal batches in any process.

    Every row of a dataset that gives rows one by one is fetched under a seed of its own, a
    function of (seed, epoch, place in the order): it is the same for any number of workers and
    ranks. A dataset that gives rows together (`__getitems__`), and the collate function, run
    under one seed for this rank's batch, a function of (seed, epoch, place of its first row): the
    same for any number of workers, but with other ranks the batches begin elsewhere.
    """

    def __init__(self, dataset: Any, collate: Collate | None, *, seed: int, single: bool) -> None:
        self.runs_user_code = True
        self.dataset = dataset
        self._collate = collate
        self._seed = seed
        self._single = single
        self._together = gives_rows_together(dataset)

    def __call__(self, ticket: Ticket) -> Any:
        with kept_generators():
            return self._run(ticket)

    def _run(self, ticket: Ticket) -> Any:
        key = derive(self._seed, "rows", ticket.epoch)
        rows = ticket.rows.tolist()
        if self._together and not self._single:
            seed_generators(spread(key, ticket.first))
            items = self.dataset.__getitems__(rows)
        else:
            items = [self._one(row, spread(key, ticket.first + i)) for i, row in enumerate(rows)]
        seed_generators(derive(self._seed, "collate", ticket.epoch, ticket.first))
        if self._single:
            return (self._collate or default_convert)(items[0])
        return (self._collate or stack_rows)(items)

    def _one(self, row: int, seed: int) -> Any:
        seed_generators(seed)
        return self.dataset[row]


def gives_rows_together(dataset: Any) -> bool:
    """Whether `__getitems__` is worth calling: a `Subset` only hands it on."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return callable(getattr(dataset, "__getitems__", None))
