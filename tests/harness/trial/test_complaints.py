from __future__ import annotations

from burst.core.model import Trial
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Put
from burst.core.testing.examples import EXPERIMENT, NOW, TRIAL, trial
from burst.harness.checkpoints.publish import Identity, note_failure
from burst.harness.trial.complaints import Complaints

FULL = "the checkpoint at batch {} was not saved: cannot write x\n  Why:  no space left"
GONE = "the checkpoint at batch {} was not saved: the store does not answer"


def test_a_cause_is_told_once_and_counted() -> None:
    complaints = Complaints()
    said = [complaints.failed([FULL.format(batch)]) for batch in range(1, 101)]
    assert said[0] == [FULL.format(1)]
    assert [n for n, lines in enumerate(said, start=1) if lines] == [1, 10, 100]
    assert said[9] == ["10 checkpoints in a row have failed: cannot write x: no space left"]


def test_another_cause_is_news() -> None:
    complaints = Complaints()
    said = complaints.failed([FULL.format(1), GONE.format(2), FULL.format(3), GONE.format(4)])
    assert said == [FULL.format(1), GONE.format(2)]


def test_that_checkpoints_work_again_is_told_once_and_the_next_failure_is_news() -> None:
    complaints = Complaints()
    assert complaints.worked() == ""
    complaints.failed([FULL.format(1)])
    assert complaints.worked() == (
        "checkpoints work again; the one before failed, the last because: "
        "cannot write x: no space left"
    )
    assert complaints.worked() == ""
    assert complaints.failed([FULL.format(2)]) == [FULL.format(2)]
    complaints.failed([FULL.format(3)])
    assert "the 2 before failed" in complaints.worked()


def test_the_record_tells_the_newest_failure_and_an_event_each_new_cause() -> None:
    store = MemoryStore()
    store.commit(Put(trial(token=1)))
    identity = Identity(EXPERIMENT, TRIAL, attempt=1, token=1)
    for batch, text in enumerate((FULL, FULL, GONE, GONE, FULL), start=1):
        note_failure(store, identity, text.format(batch), batch, NOW)
    assert store.get(Trial, TRIAL).checkpoint_problem == FULL.format(5)
    told = [event.text for event in store.events().events]
    assert told == [FULL.format(1), GONE.format(3), FULL.format(5)]
