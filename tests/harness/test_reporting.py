from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from burst.core.clock import ManualClock
from burst.core.errors import BurstError, Fenced, StoreError, Unreachable, UsageError
from burst.core.model import Code, Event, Experiment, Lengths, MetricChunk, MetricPoint, Trial
from burst.core.store import open_store
from burst.core.store.memory import MemoryStore
from burst.core.store.port import MAX_RECORD_BYTES, Put, Store
from burst.harness import reporting
from burst.harness.chunks import Origin
from burst.harness.progress import Progress, StoreSink
from burst.harness.reporting import Reporter

EXPERIMENT = "exp-1m3k9zq4w7c"
TRIAL = f"{EXPERIMENT}.t0000"


class Broken:
    """A sink that raises what it is told to, before or after it has passed things on."""

    def __init__(self, inner: StoreSink) -> None:
        self.inner = inner
        self.before: list[Exception] = []
        self.after: list[Exception] = []
        self.never = ""
        """A group that nothing ever takes."""
        self.tried = threading.Event()
        self.sent: Callable[[], None] = lambda: None
        """Called when something was."""

    def send(self, chunks: list[MetricChunk], events: list[Event]) -> None:
        if chunks and self.before:
            self.tried.set()
            raise self.before.pop(0)
        if any(chunk.group == self.never for chunk in chunks):
            raise KeyError(self.never)
        self.inner.send(chunks, events)
        self.sent()
        if chunks and self.after:
            self.tried.set()
            raise self.after.pop(0)

    def is_due(self) -> bool:
        return self.inner.is_due()

    def forget(self) -> None:
        self.inner.forget()


def _store(url: str = "") -> Store:
    store = open_store(url) if url else MemoryStore()
    store.commit(
        Put(
            Experiment(
                id=EXPERIMENT,
                name="x",
                owner="",
                created=0,
                state_since=0,
                config={},
                code=Code(digest="", size=0),
            )
        ),
        Put(
            Trial(
                id=TRIAL,
                experiment=EXPERIMENT,
                number=0,
                seed=1,
                slots=1,
                pools=(),
                created=0,
                queued=0,
                state_since=0,
                token=1,
            )
        ),
    )
    return store


@contextmanager
def _reporter(store: Store, token: int = 1) -> Iterator[tuple[Reporter, Broken, Progress]]:
    progress = Progress(ManualClock())
    sink = Broken(StoreSink(store, TRIAL, token, progress))
    reporter = Reporter(sink, Origin(TRIAL, 1), ManualClock())
    try:
        yield reporter, sink, progress
    finally:
        reporter.abandon()


def _batches(store: Store, group: str = "training") -> list[int]:
    return [row.batches for chunk in store.metrics(TRIAL, group) for row in chunk.rows]


def test_what_is_reported_to_a_closed_reporter_is_told_at_once() -> None:
    with _reporter(_store()) as (reporter, _, _):
        reporter.close()
        with pytest.raises(UsageError, match="closed"):
            reporter.report("training", 1, {"loss": 1.0})
        with pytest.raises(UsageError, match="closed"):
            reporter.flush()


def test_a_flush_makes_every_report_before_it_durable() -> None:
    store = _store()
    with _reporter(store) as (reporter, _, progress):
        progress.measure = lambda: Lengths(batches=7)
        for batch in range(1, 8):
            reporter.report("training", batch, {"loss": 1.0})
        assert reporter.flush(30)
        assert _batches(store) == list(range(1, 8))
        assert store.get(Trial, TRIAL).done.batches == 7


def test_a_short_training_is_told_as_it_comes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "EVERY_S", 1000.0)
    store, told = _store(), threading.Event()
    with _reporter(store) as (reporter, sink, progress):
        progress.target_batches = 100
        for _ in reporting.FIRST_EVERY_S:
            assert reporter.flush(30)
        sink.sent = told.set
        progress.measure = lambda: Lengths(batches=5)
        assert told.wait(30)
        assert store.get(Trial, TRIAL).done.batches == 5


def test_where_nobody_can_say_how_far_a_training_is_a_flush_raises_instead_of_waiting() -> None:
    def measure() -> Lengths:
        raise ZeroDivisionError("a length that is none")

    with _reporter(_store()) as (reporter, _, progress):
        progress.target_batches = 100
        for _ in reporting.FIRST_EVERY_S:
            assert reporter.flush(30)
        progress.measure = measure
        reporter._thread.join(30)
        with pytest.raises(BurstError, match="cannot be stored") as caught:
            reporter.flush(30)
        assert "a length that is none" in caught.value.why


@pytest.mark.parametrize(
    ("target", "batches", "due"),
    [(100, 4, False), (100, 5, True), (3, 0, False), (3, 1, True), (None, 9, False)],
)
def test_a_good_way_is_a_twentieth_of_the_training(
    target: int | None, batches: int, due: bool
) -> None:
    progress = Progress(ManualClock())
    sink = StoreSink(_store(), TRIAL, 1, progress)
    assert not sink.is_due()
    progress.target_batches = target
    progress.measure = lambda: Lengths(batches=batches)
    assert sink.is_due() is due
    sink.send([], [])
    assert not sink.is_due()


def test_a_commit_whose_answer_was_lost_counts_once() -> None:
    store = _store()
    with _reporter(store) as (reporter, sink, _):
        sink.after = [Unreachable("no answer")]
        reporter.report("training", 1, {"loss": 1.0})
        reporter.report("validation", 1, {"loss": 1.0})
        assert reporter.flush(30)
        assert (_batches(store), _batches(store, "validation")) == ([1], [1])
        assert [chunk.seq for chunk in store.metrics(TRIAL)] == [0, 0]


def test_an_unreachable_store_delays_metrics_and_loses_none() -> None:
    store = _store()
    with _reporter(store) as (reporter, sink, _):
        sink.before = [Unreachable("down"), Unreachable("down")]
        reporter.report("training", 1, {"loss": 1.0})
        assert sink.tried.wait(30)
        reporter.report("training", 2, {"loss": 2.0})
        assert reporter.flush(30)
        assert _batches(store) == [1, 2]


def test_a_store_that_is_full_delays_metrics_and_loses_none() -> None:
    store = _store()
    with _reporter(store) as (reporter, sink, _):
        sink.before = [StoreError("the store cannot grow")]
        reporter.report("training", 1, {"loss": 1.0})
        assert reporter.flush(30)
        reporter.report("training", 2, {"loss": 1.0})
        assert reporter.flush(30)
        assert _batches(store) == [1, 2]


def _lost(store: Store) -> list[str]:
    return [e.text for e in store.events().events if e.name == "trial.metrics_lost"]


def test_a_chunk_that_a_defect_keeps_from_the_store_is_left_out_alone_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = _store()
    with _reporter(store) as (reporter, sink, _):
        sink.never = "strange"
        for batch in range(1, 4):
            reporter.report("training", batch, {"loss": 1.0})
            reporter.report("strange", batch, {"loss": 1.0})
            reporter.report("validation", batch, {"loss": 1.0})
            reporter.event(Event(subject=TRIAL, name="said", at=0.0))
            assert reporter.flush(30)
        assert (_batches(store), _batches(store, "validation")) == ([1, 2, 3], [1, 2, 3])
        assert _batches(store, "strange") == []
        assert [e.name for e in store.events().events].count("said") == 3
        (told,) = _lost(store)
        assert "'strange' at batch 1 cannot be stored" in told
        reporter.close(30)
    assert "3 of 'strange'" in caplog.text


def test_a_row_that_is_none_is_left_out_alone() -> None:
    store = _store()
    with _reporter(store) as (reporter, _, _):
        for batch, name in enumerate(["loss", 1, "lo\ud800", "loss"]):
            reporter.report("training", batch, {name: 1.0})  # type: ignore[dict-item]
        assert reporter.flush(30)
        assert _batches(store) == [0, 2, 3]
        assert len(_lost(store)) == 1


def test_metrics_that_are_too_large_are_left_out_of_the_record_too(tmp_path: Path) -> None:
    store = _store(f"sqlite://{tmp_path / 'burst.db'}")
    with _reporter(store) as (reporter, _, progress):
        progress.measure = lambda: Lengths(batches=9)
        many = {
            hashlib.sha256(bytes([i, j])).hexdigest(): 1 / 3 for i in range(99) for j in range(99)
        }
        for group, metrics in (("training", {"loss": 1.0}), ("huge", many), ("own", {"x": 1.0})):
            progress.reported(group, 9, metrics)
            reporter.report(group, 9, metrics)
        assert reporter.flush(30)
        progress.reported("training", 10, {"loss": 1.0})
        reporter.report("training", 10, {"loss": 1.0})
        assert reporter.flush(30)
        assert (_batches(store), _batches(store, "own")) == ([9, 10], [9])
        trial = store.get(Trial, TRIAL)
        assert (trial.done.batches, trial.latest["training"].batches) == (9, 10)
        assert len(_lost(store)) == 1


def test_progress_that_can_never_be_stored_is_told_in_words_and_again_at_the_end(
    tmp_path: Path,
) -> None:
    store = _store(f"sqlite://{tmp_path / 'burst.db'}")
    with _reporter(store) as (reporter, _, progress):
        many = {f"a metric of many, number {i}": 1.0 for i in range(20_000)}
        progress.best = MetricPoint(batches=1, metrics=many, at=0.0)
        progress.reported("validation", 1, {})
        for act in (reporter.flush, reporter.close):
            with pytest.raises(BurstError, match="the progress of this trial cannot be stored"):
                act(30)


def test_a_flush_that_cannot_be_says_so_in_time() -> None:
    with _reporter(_store()) as (reporter, sink, _):
        sink.before = [Unreachable("down")] * 100
        reporter.report("training", 1, {"loss": 1.0})
        assert not reporter.flush(0.05)
        with pytest.raises(Unreachable, match="could not be stored"):
            reporter.close(0.05)


def test_a_fenced_reporter_raises_at_the_next_report() -> None:
    with _reporter(_store(), token=0) as (reporter, _, _):
        reporter.report("training", 1, {"loss": 1.0})
        with pytest.raises(Fenced):
            reporter.flush(30)
        with pytest.raises(Fenced):
            reporter.report("training", 2, {"loss": 1.0})


def test_many_reports_become_chunks_that_a_store_takes() -> None:
    store = _store()
    names = [f"metric_with_a_long_name_{i}" for i in range(40)]
    with _reporter(store) as (reporter, _, _):
        for batch in range(2000):
            reporter.report("training", batch, dict.fromkeys(names, 1 / 3))
        assert reporter.flush(60)
    chunks = store.metrics(TRIAL, "training")
    assert len(chunks) > 1
    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
    assert max(len(chunk.model_dump_json()) for chunk in chunks) < MAX_RECORD_BYTES
    assert _batches(store) == list(range(2000))


def _judge() -> Progress:
    progress = Progress(ManualClock())
    progress.metric = "loss"
    return progress


def test_progress_keeps_the_best_validation_and_ignores_nan() -> None:
    progress = _judge()
    judged = [
        progress.judge(batch, {"loss": value})
        for batch, value in enumerate([3.0, float("nan"), 2.0, 2.0, 5.0])
    ]
    assert judged == [True, False, True, False, False]
    assert progress.best is not None
    assert progress.best.batches == 2
    assert not progress.judge(9, {"accuracy": 1.0})


def test_progress_survives_a_checkpoint() -> None:
    progress = _judge()
    progress.reported("validation", 3, {"loss": 1.0})
    progress.judge(3, {"loss": 1.0})
    other = Progress(ManualClock())
    other.load_state(progress.state())
    assert (other.best, other.validations) == (progress.best, 1)


def test_a_repeated_validation_is_not_counted_twice() -> None:
    store = _store()
    for _ in range(2):
        with _reporter(store) as (reporter, _, progress):
            progress.reported("validation", 3, {"loss": 1.0})
            assert reporter.flush(30)
    assert store.get(Trial, TRIAL).validations == 1


def test_until_a_state_is_restored_the_record_keeps_what_was_known() -> None:
    store = _store()
    best = MetricPoint(batches=40, metrics={"loss": 0.5}, at=1.0)
    known = {"done": Lengths(batches=50), "target_batches": 90, "best": best}
    store.commit(Put(store.get(Trial, TRIAL).model_copy(update=known)))
    progress = Progress(ManualClock())
    sink = StoreSink(store, TRIAL, 1, progress)
    sink.send([], [])
    found = store.get(Trial, TRIAL)
    assert (found.done, found.target_batches, found.best) == tuple(known.values())
    progress.measure = lambda: Lengths(batches=7)
    sink.send([], [])
    assert store.get(Trial, TRIAL).done.batches == 7
