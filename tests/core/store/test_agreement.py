"""Any history of commits leaves the SQLite store and the one in memory alike."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from burst.core.errors import StoreError
from burst.core.model import Allocation, Record, Trial
from burst.core.states import AllocationState, TrialState
from burst.core.store.memory import MemoryStore
from burst.core.store.port import (
    Append,
    AppendMetrics,
    Delete,
    Fence,
    Put,
    Store,
    Write,
)
from burst.core.store.sqlite import SqliteStore
from burst.core.testing import examples
from burst.core.testing.examples import EXPERIMENT

NUMBERS = st.integers(0, 3)
TRIALS = st.builds(
    lambda number, version, token, state: examples.trial(
        number, version=version, token=token, state=state
    ),
    NUMBERS,
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from(TrialState),
)
ALLOCATIONS = st.builds(
    lambda number, version, pool, state: examples.allocation(
        id=f"alloc-1m3k9zq4w7{number}", version=version, pool=pool, state=state
    ),
    NUMBERS,
    st.integers(0, 3),
    st.sampled_from("ab"),
    st.sampled_from(AllocationState),
)
RECORDS: st.SearchStrategy[Record] = TRIALS | ALLOCATIONS
WRITES: st.SearchStrategy[Write] = st.one_of(
    st.builds(Put, RECORDS),
    st.builds(Put, RECORDS),
    st.builds(Delete, RECORDS),
    st.builds(Fence, NUMBERS.map(lambda n: examples.trial(n).id), st.integers(0, 2)),
    st.builds(
        Append,
        st.builds(
            examples.event, st.sampled_from("ab"), experiment=st.sampled_from(["", EXPERIMENT])
        ),
    ),
    st.builds(
        AppendMetrics,
        st.builds(examples.chunk, NUMBERS, group=st.sampled_from("ab"), attempt=st.integers(1, 2)),
    ),
)


class Agreement(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.stores: tuple[Store, ...] = (
            MemoryStore(),
            SqliteStore(Path(self._folder.name) / "store.db"),
        )
        self.cursors = [""]

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        self._folder.cleanup()

    @rule(writes=st.lists(WRITES, min_size=1, max_size=4))
    def commit(self, writes: list[Write]) -> None:
        """As drawn: mostly of the wrong version."""
        self._commit(writes)

    @rule(writes=st.lists(WRITES, min_size=1, max_size=4))
    def commit_what_was_read(self, writes: list[Write]) -> None:
        """The versions set right, so that histories grow long."""
        self._commit([self._current(write) for write in writes])

    @rule()
    def keep_cursor(self) -> None:
        self.cursors.append(self.stores[0].newest_cursor())

    @invariant()
    def both_are_alike(self) -> None:
        first, second = (self._all(store) for store in self.stores)
        assert first == second

    def _commit(self, writes: list[Write]) -> None:
        first, second = (_outcome(store, writes) for store in self.stores)
        assert first == second

    def _current(self, write: Write) -> Write:
        if not isinstance(write, Put | Delete):
            return write
        found = self.stores[0].find(type(write.record), write.record.id)
        version = found.version if found else 0
        return type(write)(write.record.model_copy(update={"version": version}))

    def _all(self, store: Store) -> list[object]:
        seen: list[object] = [store.newest_cursor(), store.metrics(examples.TRIAL)]
        for newest_first in (False, True):
            for after in ("", examples.trial(1).id):
                seen.append(
                    store.children(
                        Trial, EXPERIMENT, after=after, limit=2, newest_first=newest_first
                    )
                )
            seen.append(store.children(Allocation, examples.TRIAL, newest_first=newest_first))
        seen += [store.live(Trial), store.live(Allocation), store.live(Allocation, "b")]
        for cursor in self.cursors:
            seen.append(store.events(cursor, limit=3))
            seen.append(store.events(cursor, experiment=EXPERIMENT))
        return seen


def _outcome(store: Store, writes: list[Write]) -> str:
    try:
        store.commit(*writes)
    except (StoreError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "done"


TestAgreement = Agreement.TestCase
TestAgreement.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
