"""Goes on within a pass over an iterable that tells no place: by reading it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from burst.harness.transformers.trainer.loading.books import Books, Crew, Entry, Mark
from burst.harness.transformers.trainer.loading.generators import Generators, Untouched


class Again:
    """The source of whatever gives batches."""

    ahead = 0
    workers = 0

    def __init__(self, make: Callable[[], Iterator[Any]], generators: Generators) -> None:
        """`make` gives the iterator of a new pass."""
        self._make = make
        self._generators = generators

    def begin(self) -> Rereading:
        """A pass from its beginning."""
        return Rereading(Books(self._generators.take()), iter(self._make()))

    def enter(self, entry: Entry) -> Rereading:
        """A pass from within: read from its beginning, in the random states of then. It leaves
        the random states as they are."""
        with Untouched(self._generators):
            self._generators.put(entry.opening)
            batches = iter(self._make())
            next(islice(batches, entry.mark.batch, entry.mark.batch), None)
        return Rereading(Books(entry.opening, fetched=entry.mark.batch), batches)

    def crew(self) -> None:
        """Its workers, if there are any, are not known."""

    def adopt(self, crew: Crew) -> None:
        """Its workers, if there are any, are not known."""


class Rereading:
    """An iterator over batches that are counted."""

    def __init__(self, books: Books, batches: Iterator[Any]) -> None:
        self.books = books
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = next(self._batches)
        self.books.fetched += 1
        return batch

    def entry(self, batch: int) -> Entry:
        """What `enter` goes on from so that this batch is the next one."""
        return Entry(self.books.opening, None, Mark(batch, batch, None))
