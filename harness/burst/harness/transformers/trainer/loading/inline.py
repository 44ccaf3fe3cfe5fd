"""Reads batches in the training process, with books, and goes on from a place in a pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from burst.harness.transformers.trainer.loading.books import Books, Crew, Entry, Mark
from burst.harness.transformers.trainer.loading.generators import Generators, Untouched
from burst.harness.transformers.trainer.loading.order import Order
from burst.harness.transformers.trainer.loading.places import Places
from burst.harness.transformers.trainer.loading.view import View


class Inline:
    """The source of a loader without workers."""

    workers = 0

    def __init__(self, loader: Any, ahead: int, generators: Generators, places: Places) -> None:
        """`ahead` batches are read at a time before they are asked for; 0 if none is."""
        self._loader = loader
        self.ahead = ahead
        self.generators = generators
        self.places = places

    def begin(self) -> Reading:
        """A pass from its beginning, as the loader would make it."""
        books = Books(self.generators.take())
        self.places.begin()
        return self._reading(self._loader.dataset, Order(self._loader._index_sampler), books)

    def enter(self, entry: Entry) -> Reading:
        """A pass from within. It leaves the random states as they are, and so does the fetch of
        what had been read ahead."""
        mark = entry.mark
        books = Books(entry.opening, entry.first, fetched=mark.batch)
        skip = 0 if self.places.is_stream else mark.pulled
        order = Order(self._loader._index_sampler, skip)
        with Untouched(self.generators):
            self.generators.put(entry.opening)
            dataset, left_out = self.places.enter(mark.place)
            reading = self._reading(dataset, order, books)
            if entry.first is not None:
                self.generators.put(entry.first)
            order.skip()
            if self.places.told:
                left_out = mark.batch
            reading.leave_out(left_out)
        if mark.random is not None:
            reading.fetch_again(mark)
        return reading

    def crew(self) -> None:
        """There are no workers."""

    def adopt(self, crew: Crew) -> None:
        """There are no workers to be as these."""

    def _reading(self, dataset: Any, order: Order, books: Books) -> Reading:
        view = View(self._loader, dataset=dataset, _index_sampler=order)
        return Reading(_SingleProcessDataLoaderIter(view), order, books, self)


class Reading:
    """An iterator over batches that keeps books of what it gives."""

    def __init__(self, batches: Any, order: Order, books: Books, source: Inline) -> None:
        self._batches = batches
        self._order = order
        self._source = source
        self.books = books
        self._again = 0
        self._random: Any = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._order)

    def __next__(self) -> Any:
        if self._again:
            return self._fetch_again()
        books, ahead = self.books, self._source.ahead
        if books.first is None or (ahead and books.fetched % ahead == 0):
            mark = self._mark(self._source.generators.take())
            books.marks.append(mark)
            if books.first is None:
                books.first = mark.random
        return self._fetch()

    def leave_out(self, number: int) -> None:
        """Read so many batches for nothing."""
        next(islice(self._batches, number, number), None)

    def fetch_again(self, mark: Mark) -> None:
        """Let what comes next be fetched as it was, in the random states of then, which are gone
        on from as little as they were."""
        self.books.marks.append(mark)
        self._random = mark.random
        self._again = self._source.ahead

    def entry(self, batch: int) -> Entry:
        """What `enter` goes on from so that this batch is the next one."""
        books = self.books
        mark = next((mark for mark in books.marks if mark.batch == batch), None)
        return Entry(books.opening, books.first, mark or self._mark(None))

    def _mark(self, random: Any) -> Mark:
        place = self._source.places.take()
        return Mark(self.books.fetched, self._order.pulled, random, place)

    def _fetch(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            self.books.ended = True
            raise
        self.books.fetched += 1
        return batch

    @property
    def ended(self) -> bool:
        """Whether a stream gave its last rows, and those were too few for a whole batch. What it
        tells of its place may then be its beginning again."""
        return bool(getattr(self._batches._dataset_fetcher, "ended", False))

    def _fetch_again(self) -> Any:
        generators = self._source.generators
        with Untouched(generators):
            generators.put(self._random)
            batch = self._fetch()
            self._again -= 1
            self._random = generators.take() if self._again else None
        return batch
