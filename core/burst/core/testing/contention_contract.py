"""What every store must keep when many threads use it at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from burst.core.errors import Conflict, Fenced
from burst.core.model import Trial
from burst.core.store import update
from burst.core.store.port import Append, Fence, Put, Store
from burst.core.testing import examples
from burst.core.testing.examples import EXPERIMENT, TRIAL


class ContentionContract:
    """Many threads at once, and reading again after a conflict."""

    def test_threads_that_contend_for_one_record_lose_no_update(self, store: Store) -> None:
        store.commit(Put(examples.trial()))
        together(8, lambda _: count_up(store, 5))
        trial = store.get(Trial, TRIAL)
        assert (trial.restarts, trial.version) == (40, 41)

    def test_of_threads_that_create_one_record_one_succeeds(self, store: Store) -> None:
        def create(worker: int) -> int:
            try:
                store.commit(Put(examples.trial(seed=worker)), Append(examples.event(str(worker))))
            except Conflict:
                return 0
            return 1

        assert sum(together(8, create)) == 1
        (event,) = store.events().events
        assert event.name == str(store.get(Trial, TRIAL).seed)

    def test_of_threads_that_spend_one_token_one_succeeds(self, store: Store) -> None:
        store.commit(Put(examples.trial(token=1)))
        spent = examples.trial(version=1, token=2)

        def spend(_: int) -> int:
            try:
                store.commit(Fence(TRIAL, 1), Put(spent))
            except (Fenced, Conflict):
                return 0
            return 1

        assert sum(together(8, spend)) == 1

    def test_a_reader_sees_a_commit_whole(self, store: Store) -> None:
        first, second = examples.trial(0), examples.trial(1)
        store.commit(Put(first), Put(second))
        done = threading.Event()

        def write() -> None:
            for version in range(1, 40):
                store.commit(
                    Put(first.model_copy(update={"version": version})),
                    Put(second.model_copy(update={"version": version})),
                )
            done.set()

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            while not done.is_set() and not writing.done():
                a, b = store.children(Trial, EXPERIMENT)
                assert a.version == b.version
            writing.result()

    def test_closing_twice_is_no_error(self, store: Store) -> None:
        store.close()
        store.close()


def together(workers: int, work: Callable[[int], int]) -> list[int]:
    """`work(0)` … `work(workers - 1)` in threads that start at the same moment."""
    gate = threading.Barrier(workers)

    def run(worker: int) -> int:
        gate.wait()
        return work(worker)

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(run, range(workers)))


def count_up(store: Store, times: int) -> int:
    """Count the trial's restarts up, so many times."""
    for _ in range(times):
        update(
            store,
            Trial,
            TRIAL,
            lambda trial: trial.model_copy(update={"restarts": trial.restarts + 1}),
            attempts=1000,
        )
    return times
