"""Batches of a dataset without row numbers, which can only be read forward.

Its place is a state of its own (`state_dict` and `load_state_dict`, as Hugging Face's streaming
datasets have them), taken after every batch and saved with the checkpoint.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch.utils.data as torch_data

from burst.harness.data.collate import stack_rows
from burst.harness.data.errors import DataError
from burst.harness.data.fetch import Collate
from burst.harness.data.order import part
from burst.harness.data.randomness import derive, kept_generators, spread
from burst.harness.data.seeding import seed_generators

_END = object()


@dataclass(frozen=True)
class Place:
    """Where in the stream the next batch begins."""

    batch: int = 0
    """Over all epochs."""
    epoch: int = 0
    rows: int = 0
    """Read in this epoch, for all ranks."""
    state: str | None = None
    """The dataset's own state as JSON; None is the epoch's beginning, from where rows are read
    over to come to the place."""


@dataclass(frozen=True)
class Share:
    """Which rows of every global batch a rank takes."""

    batch_size: int
    rank: int = 0
    ranks: int = 1
    drop_last: bool = False


class Stream:
    """A dataset with `state_dict` and `load_state_dict`, as it was handed over."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._is_hugging_face = hasattr(dataset, "_ex_iterable")
        # What `load_state_dict` takes to begin again, in an epoch that follows another.
        # Hugging Face's are told by None, and a state of theirs is of the last iteration.
        self.beginning = None if self._is_hugging_face else copy.deepcopy(dataset.state_dict())
        # One that is made of another stream says by `keeps_place` whether that one does.
        self.keeps_place = getattr(dataset, "keeps_place", not _has_shuffle_buffer(dataset))
        # Split by the user (`split_dataset_by_node`), it holds this rank's rows only.
        self.is_split = getattr(dataset, "_distributed", None) is not None

    def opened(self) -> Any:
        """Hugging Face's streams are read without moving the user's own; others as they are."""
        return copy.deepcopy(self._dataset) if self._is_hugging_face else self._dataset


class StreamReader(torch_data.IterableDataset[Any]):
    """One rank's batches, each with the place after it.

    Every rank reads the whole stream and takes its part of every global batch, so that the order
    does not depend on the number of ranks and any number of them can go on from a place.
    """

    def __init__(
        self, stream: Stream, collate: Collate | None, share: Share, *, seed: int, start: Place
    ) -> None:
        self.dataset = stream.opened()
        self._beginning = stream.beginning
        self._collate = collate or stack_rows
        self._share = share
        self._seed = seed
        self.start = start
        self._keeps_place = stream.keeps_place

    def __iter__(self) -> Iterator[tuple[Any, Place]]:
        """Over all epochs, without end."""
        place = self.start
        while True:
            before = place.batch
            for batch, after in self.one_pass(place):
                place = after
                yield batch, after
            if place.batch == before and place.rows == 0:
                raise _no_batch(self._share)
            if place.rows:
                place = Place(batch=place.batch, epoch=place.epoch + 1)

    def one_pass(self, place: Place) -> Iterator[tuple[Any, Place]]:
        """From the place to the end of its epoch."""
        rows = self._enter(place)
        wanted = self._share.batch_size * self._share.ranks
        epoch = place.epoch
        while True:
            first = place.rows
            taken = self._read(rows, place, wanted)
            ended = len(taken) < wanted
            if not taken or (ended and self._share.drop_last):
                return
            if ended:
                place = Place(batch=place.batch + 1, epoch=epoch + 1)
            else:
                place = replace(
                    place, batch=place.batch + 1, rows=first + wanted, state=self._snapshot()
                )
            low, high = part(len(taken), self._share.rank, self._share.ranks)
            yield self._batch(taken[low:high], epoch, first + low), place
            if ended:
                return

    def _enter(self, place: Place) -> Iterator[Any]:
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(place.epoch)
        state = self._beginning if place.state is None else json.loads(place.state)
        self.dataset.load_state_dict(copy.deepcopy(state))
        rows: Iterator[Any] = iter(self.dataset)
        if place.state is None and place.rows:
            self._read(rows, replace(place, rows=0), place.rows)
        return rows

    def _read(self, rows: Iterator[Any], place: Place, number: int) -> list[Any]:
        key = derive(self._seed, "rows", place.epoch)
        taken = []
        with kept_generators():
            for row in range(place.rows, place.rows + number):
                seed_generators(spread(key, row))
                item = next(rows, _END)
                if item is _END:
                    break
                taken.append(item)
        return taken

    def _batch(self, rows: list[Any], epoch: int, first: int) -> Any:
        with kept_generators():
            seed_generators(derive(self._seed, "collate", epoch, first))
            return self._collate(rows)

    def _snapshot(self) -> str | None:
        if not self._keeps_place:
            return None
        state = self.dataset.state_dict()
        try:
            return json.dumps(state)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"the state of {type(self.dataset).__name__} cannot be written as JSON",
                why=str(error),
                mend="let its state_dict() hold numbers, strings, lists and dicts only",
            ) from error


class OnePass:
    """A reader's batches to the end of the epoch that it starts in."""

    def __init__(self, reader: StreamReader) -> None:
        self.dataset = reader.dataset
        self._reader = reader

    def __iter__(self) -> Iterator[tuple[Any, Place]]:
        return self._reader.one_pass(self._reader.start)


def _has_shuffle_buffer(dataset: Any) -> bool:
    """Whether a Hugging Face stream shuffles in a buffer, which its state leaves out: such a
    stream comes to its place by reading its epoch again."""
    waiting = [getattr(dataset, "_ex_iterable", None)]
    while waiting:
        stage = waiting.pop()
        if type(stage).__name__ == "BufferShuffledExamplesIterable":
            return True
        waiting += [getattr(stage, "ex_iterable", None)] if hasattr(stage, "ex_iterable") else []
        waiting += list(getattr(stage, "ex_iterables", []))
    return False


def _no_batch(share: Share) -> DataError:
    return DataError(
        f"the stream ends before it gives a batch of {share.batch_size * share.ranks} rows",
        why="it is empty, or drop_last=True drops the only batch of an epoch",
        mend="look at how it is loaded or filtered, or use a smaller batch_size",
    )
