"""Read, decide, commit, and again where someone was faster."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from burst.core.clock import ManualClock
from burst.core.errors import Conflict, Fenced, NotFound, UsageError
from burst.core.model import Trial
from burst.core.states import Reason, TrialState, advance
from burst.core.store import event_of, open_store, update
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Append, Fence, Put, Write
from burst.core.testing import examples
from burst.core.testing.examples import EXPERIMENT, NOW, TRIAL


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.commit(Put(examples.trial()))
    return store


class Rival:
    """Decides, but somebody else writes the record first, so many times."""

    def __init__(self, store: MemoryStore, times: int) -> None:
        self.store = store
        self.times = times
        self.seen: list[int] = []

    def __call__(self, trial: Trial) -> Trial:
        self.seen.append(trial.version)
        if len(self.seen) <= self.times:
            self.store.commit(Put(trial.model_copy(update={"seed": trial.seed + 1})))
        return trial.model_copy(update={"restarts": trial.restarts + 1})


def test_the_record_is_returned_as_it_stands_afterwards(store: MemoryStore) -> None:
    changed = update(store, Trial, TRIAL, lambda t: t.model_copy(update={"restarts": 1}))
    assert changed == store.get(Trial, TRIAL)
    assert (changed.restarts, changed.version) == (1, 2)


def test_all_the_writes_of_a_decision_are_one_commit(store: MemoryStore) -> None:
    def run(trial: Trial) -> Sequence[Write]:
        running, transition = advance(trial, TrialState.RUNNING, Reason(code="placed"), NOW)
        return (
            Fence(TRIAL, 0),
            Put(running),
            Append(event_of(transition, EXPERIMENT)),
        )

    changed = update(store, Trial, TRIAL, run)
    assert changed == store.get(Trial, TRIAL)
    assert changed.state is TrialState.RUNNING
    (event,) = store.events().events
    assert (event.subject, event.name, event.experiment) == (TRIAL, "trial.running", EXPERIMENT)
    assert event.data == {"before": "waiting", "code": "placed"}


def test_nothing_to_do_writes_nothing(store: MemoryStore) -> None:
    assert update(store, Trial, TRIAL, lambda _: None).version == 1
    assert update(store, Trial, TRIAL, lambda _: ()).version == 1


def test_a_conflict_is_decided_again_from_what_is_there_now(store: MemoryStore) -> None:
    rival, clock = Rival(store, 3), ManualClock()
    changed = update(store, Trial, TRIAL, rival, clock=clock)
    assert rival.seen == [1, 2, 3, 4]
    assert (changed.restarts, changed.seed, changed.version) == (1, 45, 5)
    assert changed == store.get(Trial, TRIAL)


def test_waits_grow_but_stay_short(store: MemoryStore) -> None:
    waits: list[float] = []

    class Listening(ManualClock):
        def sleep(self, seconds: float) -> None:
            waits.append(seconds)

    update(store, Trial, TRIAL, Rival(store, 30), attempts=31, clock=Listening())
    assert len(waits) == 30
    assert all(0 <= wait <= min(0.5, 0.005 * 2**n) for n, wait in enumerate(waits))


def test_contention_without_end_is_a_conflict_at_last(store: MemoryStore) -> None:
    rival = Rival(store, 100)
    with pytest.raises(Conflict):
        update(store, Trial, TRIAL, rival, attempts=4, clock=ManualClock())
    assert len(rival.seen) == 4
    assert store.get(Trial, TRIAL).restarts == 0


def test_a_fence_is_not_tried_again(store: MemoryStore) -> None:
    calls = []

    def stale(trial: Trial) -> Sequence[Write]:
        calls.append(trial)
        return Fence(TRIAL, 9), Put(trial)

    with pytest.raises(Fenced):
        update(store, Trial, TRIAL, stale)
    assert len(calls) == 1


def test_a_record_that_is_not_there_is_not_found(store: MemoryStore) -> None:
    with pytest.raises(NotFound):
        update(store, Trial, examples.trial(9).id, lambda trial: trial)


@pytest.mark.parametrize(
    "url", ["", "sqlite:", "sqlite:///", "sqlite://relative.db", "postgres://x", "/tmp/store.db"]
)
def test_a_url_that_names_no_store_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="names no store") as caught:
        open_store(url)
    assert "BURST_STORE" in caught.value.mend
