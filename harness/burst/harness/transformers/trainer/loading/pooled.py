"""Reads batches through torch's worker processes, with books, and goes on from within a pass."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from burst.harness.data.forking import check_started, context_for
from burst.harness.transformers.trainer.loading.books import Books, Crew, Entry, Mark
from burst.harness.transformers.trainer.loading.crew import Entering, Telling
from burst.harness.transformers.trainer.loading.generators import Generators, Untouched
from burst.harness.transformers.trainer.loading.order import Order
from burst.harness.transformers.trainer.loading.places import Places
from burst.harness.transformers.trainer.loading.view import View

_USED = ("_try_put_index", "_process_data", "_get_data", "_reset", "_mark_worker_as_unavailable")


def fits_torch() -> bool:
    """Whether torch's iterator is built as the one that is extended here."""
    return all(hasattr(_MultiProcessingDataLoaderIter, name) for name in _USED)


class Pooled:
    """The source of a loader with workers."""

    def __init__(self, loader: Any, ahead: int, generators: Generators, places: Places) -> None:
        """`ahead` batches are read at a time before they are asked for; 0 if none is."""
        self._loader = loader
        self.workers: int = loader.num_workers
        self.ahead = ahead
        self.generators = generators
        self.places = places
        self._pool: Pool | None = None
        """Kept over passes where the workers are."""
        self._adopted: Crew | None = None

    def begin(self) -> PooledReading:
        """A pass from its beginning, as the loader would make it."""
        books = Books(self.generators.take())
        order = Order(self._loader._index_sampler)
        if self._adopted is not None:
            with Untouched(self.generators):
                self._started(Order(()), self._adopted)
            self._adopted = None
        if self._pool is None:
            return PooledReading(self._started(order), books, self)
        self._pool.restart(self._loader, order, 0)
        return PooledReading(self._pool, books, self)

    def enter(self, entry: Entry) -> PooledReading:
        """A pass from within. It leaves the random states of this process as they are."""
        crew, batch = entry.crew, entry.mark.batch
        crew = None if crew is None or crew.number != self._loader.num_workers else crew
        order = Order(
            self._loader._index_sampler, 0 if self.places.is_stream else entry.mark.pulled
        )
        with Untouched(self.generators):
            if crew is not None and crew.restarted:
                pool = self._started(Order(()), crew)
                self.generators.put(entry.opening)
                pool.restart(self._loader, order, crew.turn, afresh=False)
            else:
                self.generators.put(entry.opening)
                pool = self._started(order, crew)
            if self.places.told:
                next(islice(pool, batch, batch), None)
        reading = PooledReading(pool, Books(entry.opening, fetched=batch), self)
        reading.again = self.ahead
        return reading

    def crew(self) -> Crew | None:
        """The workers between two passes, if they stay."""
        return None if self._pool is None else self._pool.crew(0)

    def adopt(self, crew: Crew) -> None:
        """Have the next pass be made with workers as these were between two."""
        self._adopted = crew if crew.number == self._loader.num_workers else None

    def _started(self, order: Order, crew: Crew | None = None) -> Pool:
        loader = self._loader
        view = View(
            loader,
            _index_sampler=order,
            collate_fn=Telling(loader.collate_fn, loader.batch_size, place=self.places.keeps),
            worker_init_fn=Entering(
                loader.worker_init_fn, loader.collate_fn, {} if crew is None else crew.left
            ),
            multiprocessing_context=context_for(loader.multiprocessing_context),
        )
        pool = Pool(view, crew, max(self.ahead, 1))
        check_started(pool._workers)
        if loader.persistent_workers:
            self._pool = loader._iterator = pool
        return pool


class Pool(_MultiProcessingDataLoaderIter):
    """Torch's iterator, whose first task may go to another worker than the first, and which
    remembers what each worker was left in."""

    def __init__(self, view: Any, crew: Crew | None, undone: int) -> None:
        """`undone` batches that were given out can be undone in the books."""
        self.received = view._index_sampler.left_out
        self._left: dict[int, Mapping[str, Any]] = {} if crew is None else dict(crew.left)
        self._starts = dict(self._left)
        self._given: deque[tuple[int, int, Mapping[str, Any] | None]] = deque(maxlen=undone)
        self._turn = 0 if crew is None else crew.turn
        self._entering = True
        self._idle = {worker for worker, left in self._left.items() if left.get("ended")}
        self._seed = None if crew is None else crew.seed
        self._restarted = False
        self._process = os.getpid()
        super().__init__(view)

    def __del__(self) -> None:
        # A worker of another loader has inherited this, and cannot end what is not its child.
        if os.getpid() == self._process:
            super().__del__()

    @property
    def _base_seed(self) -> int:
        assert self._seed is not None
        return self._seed

    @_base_seed.setter
    def _base_seed(self, drawn: int) -> None:
        if self._seed is None:
            self._seed = drawn

    def restart(self, loader: Any, order: Order, turn: int, *, afresh: bool = True) -> None:
        """Begin another pass with the same workers, `afresh` or within it."""
        for _, task in sorted(self._task_info.items()):
            self._absorb(task[1:])
        self._index_sampler = order
        self._turn, self._entering = turn, True
        self._restarted = True
        self.received = order.left_out
        self._given.clear()
        if afresh:
            self._idle.clear()
        self._reset(loader)
        self._starts = dict(self._left)

    def crew(self, undone: int, *, at_start: bool = False) -> Crew:
        """The workers as they were before the last `undone` batches were given out."""
        left, turn = dict(self._left), self._turn
        for turn, worker, before in list(self._given)[::-1][:undone]:  # noqa: B007
            left.pop(worker)
            if before is not None:
                left[worker] = before
        if at_start:
            left, turn = dict(self._starts), 0
        assert self._seed is not None
        return Crew(self._num_workers, self._seed, left, turn, self._restarted)

    def _try_put_index(self) -> None:
        if self._entering:
            self._entering = False
            for _ in range(self._turn):
                next(self._worker_queue_idx_cycle)
            for worker in self._idle:
                self._workers_status[worker] = False
        super()._try_put_index()

    def _shutdown_workers(self) -> None:
        if self._idle and not self._shutdown:
            # They were given nothing, and wait to be told that nothing comes.
            for worker in self._idle:
                self._workers_status[worker] = True
            self._idle.clear()
        super()._shutdown_workers()

    def _get_data(self) -> Any:
        index, data = super()._get_data()  # type: ignore[no-untyped-call]
        if index not in self._task_info:  # left over from a pass that was broken off
            self._absorb((data,))
        return index, data

    def _process_data(self, data: Any, worker_idx: int) -> Any:
        self.received += 1
        self._given.append((self._turn, worker_idx, self._left.get(worker_idx)))
        self._turn = (worker_idx + 1) % self._num_workers
        self._absorb((data,))
        given = super()._process_data(data, worker_idx)  # type: ignore[no-untyped-call]
        return given[0]

    def _absorb(self, tasks: Any) -> None:
        for data in tasks:
            if isinstance(data, tuple | list):
                _, worker, changed = data
                self._left[worker] = {**self._left.get(worker, {}), **changed}


class PooledReading:
    """An iterator over batches that keeps books of what it gives."""

    def __init__(self, pool: Pool, books: Books, source: Pooled) -> None:
        self.books = books
        self.again = 0
        """So many batches had been asked for before the random states were what they are."""
        self._pool = pool
        self._source = source

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self.again:
            return self._fetch()
        self.again -= 1
        with Untouched(self._source.generators):
            return self._fetch()

    def entry(self, batch: int) -> Entry:
        """What `enter` goes on from so that this batch is the next one."""
        undone = self.books.fetched - batch
        crew = self._pool.crew(undone, at_start=bool(self._source.places.told))
        mark = Mark(batch, self._pool.received - undone, None)
        return Entry(self.books.opening, None, mark, crew)

    def _fetch(self) -> Any:
        try:
            batch = next(self._pool)
        except StopIteration:
            self.books.ended = True
            raise
        self.books.fetched += 1
        return batch
