"""The user's own samplers, held to what exact resume needs: an order that can be drawn again.

An epoch's order is drawn whole, with every generator that a sampler can draw from seeded from
(seed, epoch): the global ones of Python, NumPy and torch, and `generator` attributes as torch's
samplers have them; `set_epoch` is called where it exists. A sampler that then still answers
differently keeps a state of its own, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import DistributedSampler

from burst.harness.data.errors import DataError
from burst.harness.data.order import Ticket
from burst.harness.data.permutation import Rows
from burst.harness.data.randomness import derive, kept_generators
from burst.harness.data.seeding import seed_generators


class SampledOrder:
    """An Order that a sampler of row numbers gives; it may leave rows out and repeat them."""

    def __init__(self, sampler: Iterable[int], dataset_size: int, seed: int) -> None:
        self._draws = _Draws(sampler, seed)
        self._limit = dataset_size
        self._epoch = -1
        self._rows: Rows = np.empty(0, np.int64)
        self.size = self._draws.size
        self.at(0, self._rows)  # so that a wrong row is told before training begins

    def at(self, epoch: int, places: Rows) -> Rows:
        if epoch != self._epoch:
            self._rows = row_numbers(self._draws.of(epoch), self._limit)
            self._epoch = epoch
        return self._rows[places]


class SampledDeal:
    """A Deal of a batch sampler's batches: global batch `b` is its batches `b * ranks` up to
    `(b + 1) * ranks - 1`, one for each rank. Where the last are fewer than the ranks, they are
    dealt around."""

    def __init__(
        self, sampler: Iterable[list[int]], dataset_size: int, *, seed: int, rank: int, ranks: int
    ) -> None:
        self._draws = _Draws(sampler, seed)
        self._limit = dataset_size
        self._rank = rank
        self._ranks = ranks
        self._epoch = -1
        self._batches: list[list[int]] = []
        self._firsts: Rows = np.empty(0, np.int64)
        self.batches_per_epoch = -(-self._draws.size // ranks)
        self._enter(0)
        batch_size = getattr(sampler, "batch_size", None)
        longest = max((len(batch) for batch in self._batches), default=0)
        self.records_per_batch = (batch_size if isinstance(batch_size, int) else longest) * ranks

    def ticket(self, epoch: int, batch: int) -> Ticket:
        self._enter(epoch)
        first = batch * self._ranks
        there = min(self._ranks, len(self._batches) - first)
        number = first + self._rank % there
        rows = row_numbers(self._batches[number], self._limit)
        return Ticket(epoch, int(self._firsts[number]), rows)

    def _enter(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._batches = self._draws.of(epoch)
            self._firsts = np.cumsum([0] + [len(batch) for batch in self._batches])
            self._epoch = epoch


def row_numbers(numbers: list[Any], limit: int) -> Rows:
    """The numbers as an array.

    Raises:
        DataError: if one of them is not a row of the dataset.
    """
    rows = np.asarray(numbers) if numbers else np.empty(0, np.int64)
    if rows.dtype.kind not in "iu" or rows.ndim != 1:
        raise DataError(
            f"the sampler gives {numbers[0]!r} where a row number is wanted",
            mend="let it yield whole numbers from 0 to len(dataset) - 1",
        )
    outside = rows[(rows < 0) | (rows >= limit)]
    if outside.size:
        raise DataError(
            f"the sampler gives row {outside[0]}, and the dataset's rows are 0 to {limit - 1}",
            mend="build the sampler for this dataset",
        )
    return rows.astype(np.int64, copy=False)


class _Draws:
    """A sampler's whole epochs."""

    def __init__(self, sampler: Iterable[Any], seed: int) -> None:
        self._sampler = sampler
        self._seed = seed
        self._name = type(sampler).__name__
        self.size = self._length()
        self._check()

    def of(self, epoch: int) -> list[Any]:
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
        with kept_generators(), _seeded(self._sampler, derive(self._seed, "sampler", epoch)):
            drawn = list(islice(iter(self._sampler), self.size + 1))
        if len(drawn) != self.size:
            raise DataError(
                f"{self._name} gives {'more' if len(drawn) > self.size else len(drawn)} "
                f"of its {self.size} in epoch {epoch}",
                why="a position in the training is a number of batches, so that every epoch has "
                "to have as many as len(sampler) says",
                mend="correct its __len__, or let it give the same number in every epoch",
            )
        return drawn

    def _length(self) -> int:
        if isinstance(self._sampler, DistributedSampler) and self._sampler.num_replicas > 1:
            raise DataError(
                "a DistributedSampler splits rows over ranks, and so does the loader",
                mend="drop it, and give shuffle=True and one rank's batch_size",
            )
        try:
            return len(self._sampler)  # type: ignore[arg-type]
        except (TypeError, NotImplementedError) as error:
            raise DataError(
                f"{self._name} has no length",
                why="without it there is no telling where an epoch ends",
                mend="give it a __len__: how much it yields in one epoch",
            ) from error

    def _check(self) -> None:
        if self.of(0) != self.of(0):
            raise DataError(
                f"{self._name} gives another order each time it is asked for the same epoch",
                why="it draws from a generator that burst cannot seed, so a resumed trial would "
                "not see the rows that it has not seen yet",
                mend="let it draw from torch's, NumPy's or Python's global generator or from a "
                "torch.Generator in its `generator` attribute, or make its order a function of "
                "what set_epoch(epoch) was given",
            )


@contextmanager
def _seeded(sampler: Any, seed: int) -> Iterator[None]:
    """Seed the global generators and the sampler's own, and leave the latter as found."""
    found = [(own, own.get_state()) for own in _generators(sampler)]
    seed_generators(seed)
    for own, _ in found:
        own.manual_seed(seed)
    try:
        yield
    finally:
        for own, state in found:
            own.set_state(state)


def _generators(sampler: Any) -> Iterator[torch.Generator]:
    """The generators of a sampler and of the one that it batches."""
    while sampler is not None:
        own = getattr(sampler, "generator", None)
        if isinstance(own, torch.Generator):
            yield own
        sampler = getattr(sampler, "sampler", None)
