"""Fetches the rows of one ticket and makes them a batch, in whatever process it is called."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch.utils.data import Subset, default_convert, get_worker_info

from burst.harness.data.collate import Padding, stack_rows
from burst.harness.data.gather import Gather, gather_of, is_hugging_face
from burst.harness.data.order import Ticket
from burst.harness.data.randomness import derive, kept_generators, spread
from burst.harness.data.seeding import Seeding

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
        self.dataset = dataset
        self._collate = collate
        self._seed = seed
        self._single = single
        self._gather = None if single else _gather(dataset, collate)
        ours = collate is None or isinstance(collate, Padding)
        self._rows = _as_tensors(dataset) if ours else dataset
        self._seeding = Seeding()
        self._together = gives_rows_together(dataset) and not single

    @property
    def runs_user_code(self) -> bool:
        return self._gather is None

    def __call__(self, ticket: Ticket) -> Any:
        if self._gather is not None:
            return self._gather.batch(ticket.rows)
        if get_worker_info() is not None:
            return self._seeding.run(partial(self._run, ticket))
        with kept_generators():
            return self._seeding.run(partial(self._run, ticket))

    def __reduce__(self) -> tuple[Any, ...]:
        make = partial(Fetcher, seed=self._seed, single=self._single)
        return make, (self.dataset, self._collate)

    def _run(self, ticket: Ticket, seed: Callable[[int], None]) -> Any:
        key = derive(self._seed, "rows", ticket.epoch)
        rows = ticket.rows.tolist()
        if self._together:
            seed(spread(key, ticket.first))
            items = self._rows.__getitems__(rows)
        else:
            items = []
            for place, row in enumerate(rows, ticket.first):
                seed(spread(key, place))
                items.append(self._rows[row])
        seed(derive(self._seed, "collate", ticket.epoch, ticket.first))
        if self._single:
            return (self._collate or default_convert)(items[0])
        return (self._collate or stack_rows)(items)


def _gather(dataset: Any, collate: Collate | None) -> Gather | None:
    if isinstance(collate, Padding):
        return gather_of(dataset, collate)
    return gather_of(dataset) if collate is None else None


def _as_tensors(dataset: Any) -> Any:
    """A Hugging Face dataset without a format gives lists, which do not stack: give tensors."""
    if is_hugging_face(dataset) and dataset.format["type"] is None:
        return dataset.with_format(
            "torch",
            columns=dataset.format["columns"],
            output_all_columns=dataset.format["output_all_columns"],
        )
    return dataset


def gives_rows_together(dataset: Any) -> bool:
    """Whether `__getitems__` is worth calling: a `Subset` only hands it on."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return callable(getattr(dataset, "__getitems__", None))
