"""The order of batches, and a jump into its middle that reads no row."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from typing import Any

from accelerate.data_loader import BatchSamplerShard
from torch.utils.data import BatchSampler


class Order:
    """A loader's sampler, counted. Its one iterator is itself: torch makes it where it would
    make the sampler's, so that a sampler draws its random numbers when it always does."""

    def __init__(self, sampler: Any, skip: int = 0) -> None:
        """`skip` steps are left out as soon as the first is asked for."""
        self._sampler = sampler
        self._skip = self.left_out = skip
        self.pulled = 0
        """Steps that were taken, or skipped."""

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        self._steps = iter(self._sampler)
        return self

    def __next__(self) -> Any:
        if self._skip:
            self.skip()
        index = next(self._steps)
        self.pulled += 1
        return index

    def skip(self) -> None:
        """Leave out now what is to be left out."""
        if self._skip:
            self._steps = beyond(self._sampler, self._steps, self._skip)
            self.pulled, self._skip = self._skip, 0


def beyond(sampler: Any, steps: Iterator[Any], number: int) -> Iterator[Any]:
    """The steps of `sampler` after the first `number` of them.

    `steps` is an iterator of the sampler's of which nothing was taken. Batches are not built only
    to be left out: the sampler of rows is moved on by as many rows.
    """
    if type(sampler) is BatchSampler:
        return _batches(sampler, iter(sampler.sampler), number)
    if type(sampler) is BatchSamplerShard:
        shared = 1 if sampler.split_batches else sampler.num_processes
        # The last group is another matter: it may be filled up with the first rows.
        if number * shared < len(sampler.batch_sampler):
            jumping = copy.copy(sampler)
            jumping.batch_sampler = _Jump(sampler.batch_sampler, shared, number * shared)
            steps = iter(jumping)
            next(steps)
            return steps
    _leave_out(steps, number)
    return steps


class _Jump(BatchSampler):
    """The first batches, which a shard keeps to fill up its last ones, and then those from a
    later one on."""

    def __init__(self, batches: Any, keep: int, to: int) -> None:
        self._batches = batches
        self._keep = keep
        self._to = to
        self.batch_size = getattr(batches, "batch_size", None)  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Any]:
        # All that is left out is so before the first is given: what draws then, draws in time.
        if type(self._batches) is BatchSampler:
            rows = iter(self._batches.sampler)
            size = self._batches.batch_size
            first = [[*islice(rows, size)] for _ in range(self._keep)]
            steps = _batches(self._batches, rows, self._to - self._keep)
        else:
            steps = iter(self._batches)
            first = [*islice(steps, self._keep)]
            _leave_out(steps, self._to - self._keep)
        yield from first
        yield from steps

    def __len__(self) -> int:
        return len(self._batches)


def _batches(sampler: Any, rows: Iterator[Any], skip: int) -> Iterator[Any]:
    _leave_out(rows, skip * sampler.batch_size)
    return iter(BatchSampler(rows, sampler.batch_size, sampler.drop_last))


def _leave_out(steps: Iterator[Any], number: int) -> None:
    next(islice(steps, number, number), None)
