"""What the record says of a trial is never less than what its metrics say."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import burst.harness
from burst.core.clock import ManualClock
from burst.core.launch import Stop
from burst.core.metrics import merge
from burst.core.model import ExitKind, Lengths, MetricChunk, MetricRow, Trial
from burst.core.store import open_store
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Put, Store
from burst.harness.core_api import CoreContext
from burst.harness.progress import Progress, StoreSink
from tests.harness.launching import TRIAL, Site


def _trial(folder: Path) -> Trial:
    with closing(open_store(f"sqlite://{folder / 'burst.db'}")) as store:
        return store.live(Trial)[0]


def _beat(context: CoreContext) -> None:
    """As the reporter does by the clock."""
    reporter = context._session.reporter
    assert reporter is not None
    assert reporter.flush(30)


def _die(context: CoreContext) -> None:
    reporter = context._session.reporter
    assert reporter is not None
    reporter.abandon()
    context._closed = True


def _first_attempt(folder: Path, *, saves: bool = True) -> Trial:
    context = burst.harness.init(folder=folder)
    context.train.report_validation_metrics(20, {"validation_loss": 0.25})
    if saves:
        context.checkpoint.save({}, batches=30)
    context.train.report_progress(35)
    _beat(context)
    _die(context)
    found = _trial(folder)
    assert (found.done.batches, found.best and found.best.batches) == (35, 20)
    return found


def _nothing(context: CoreContext) -> None:
    pass


def _length(context: CoreContext) -> None:
    context.max_batches(default=1000)


def _asks(context: CoreContext) -> None:
    context.should_stop()


def _own_group(context: CoreContext) -> None:
    context._session.report("setup", 0, {"seconds": 3.0})


@pytest.mark.parametrize("does", [_nothing, _length, _asks, _own_group])
def test_an_attempt_that_ends_before_it_restores_leaves_the_record_as_it_was(
    tmp_path: Path, does: Callable[[CoreContext], None]
) -> None:
    before = _first_attempt(tmp_path)
    for _ in range(2):
        context = burst.harness.init(folder=tmp_path)
        does(context)
        _beat(context)
        _die(context)
        now = _trial(tmp_path)
        assert (now.done, now.target_batches, now.best) == (
            before.done,
            before.target_batches,
            before.best,
        )


def test_a_restored_attempt_says_where_it_goes_on_and_keeps_the_best(tmp_path: Path) -> None:
    before = _first_attempt(tmp_path)
    context = burst.harness.init(folder=tmp_path)
    saved = context.checkpoint.restore()
    assert saved is not None
    _beat(context)
    assert (_trial(tmp_path).done.batches, _trial(tmp_path).best) == (30, before.best)
    context.train.report_validation_metrics(40, {"validation_loss": 0.5})
    _beat(context)
    assert (_trial(tmp_path).done.batches, _trial(tmp_path).best) == (40, before.best)
    _die(context)


def test_with_nothing_to_restore_it_starts_over_and_says_so(tmp_path: Path) -> None:
    before = _first_attempt(tmp_path, saves=False)
    context = burst.harness.init(folder=tmp_path)
    assert context.checkpoint.restore() is None
    _beat(context)
    found = _trial(tmp_path)
    assert (found.done.batches, found.best) == (0, before.best)
    context.train.report_validation_metrics(10, {"validation_loss": 0.5})
    _beat(context)
    found = _trial(tmp_path)
    assert found.best is not None
    assert found.best.metrics == {"validation_loss": 0.5}
    _die(context)


def test_a_validation_after_the_save_at_its_batch_stays_the_best(tmp_path: Path) -> None:
    context = burst.harness.init(folder=tmp_path)
    context.checkpoint.save({}, batches=10)
    context.train.report_validation_metrics(10, {"validation_loss": 0.25})
    _beat(context)
    _die(context)
    context = burst.harness.init(folder=tmp_path)
    assert context.checkpoint.restore() is not None
    context.train.report_validation_metrics(20, {"validation_loss": 0.5})
    context.close()
    best = _trial(tmp_path).best
    assert best is not None
    assert best.batches == 10


STEP = st.one_of(st.just("save"), st.integers(0, 9))
"""A save at this batch, or a validation with this result and on to the next batch."""
ATTEMPT = st.tuples(st.booleans(), st.lists(STEP, max_size=6))


class _Life:
    """A trial's attempts, each a sink of its own, over one store."""

    def __init__(self, smaller: bool) -> None:
        self.store: Store = MemoryStore()
        self.smaller = smaller
        self.attempt = 0
        self.saved: tuple[int, dict[str, Any]] = (0, Progress().state())
        self.store.commit(Put(_record()))

    def live(self, restores: bool, steps: list[Any]) -> None:
        self.attempt += 1
        progress = Progress(ManualClock())
        progress.metric, progress.smaller_is_better = "loss", self.smaller
        sink = StoreSink(self.store, TRIAL, 1, progress)
        before = self._record()
        sink.send([], [])
        after = self._record()
        assert (after.done, after.best) == (before.done, before.best)
        if not restores:
            return
        batches, state = self.saved
        progress.base = batches
        progress.load_state(state)
        sink.send([], [])
        self.check()
        for seq, step in enumerate(steps):
            if step == "save":
                self.saved = (batches, progress.state())
                continue
            metrics = {"loss": float(step)}
            progress.judge(batches, metrics)
            progress.reported("validation", batches, metrics)
            row = MetricRow(batches=batches, at=0, metrics=metrics)
            sink.send([_chunk(self.attempt, seq, progress.base, row)], [])
            self.check()
            batches += 1

    def _record(self) -> Trial:
        return self.store.get(Trial, TRIAL)

    def check(self) -> None:
        rows = merge(self.store.metrics(TRIAL)).get("validation", [])
        values = [row.metrics["loss"] for row in rows]
        best = self._record().best
        assert (best is None) == (not values)
        if best is not None:
            assert best.metrics["loss"] == (min(values) if self.smaller else max(values))


def _record() -> Trial:
    return Trial(
        id=TRIAL,
        experiment=TRIAL.partition(".")[0],
        number=0,
        seed=1,
        slots=1,
        pools=(),
        created=0,
        queued=0,
        state_since=0,
        token=1,
        done=Lengths(),
    )


def _chunk(attempt: int, seq: int, base: int, row: MetricRow) -> MetricChunk:
    return MetricChunk(
        trial=TRIAL, attempt=attempt, group="validation", seq=seq, base=base, rows=(row,)
    )


@given(st.booleans(), st.lists(ATTEMPT, max_size=5))
def test_whatever_became_of_attempts_the_best_is_that_of_the_metrics(
    smaller: bool, attempts: list[tuple[bool, list[Any]]]
) -> None:
    life = _Life(smaller)
    for restores, steps in attempts:
        life.live(restores, steps)


SCRIPT = """
    import pathlib, time
    import burst.harness
    with burst.harness.init() as context:
        batches = context.max_batches(default=1)
        mark = pathlib.Path({mark!r})
        if mark.exists():
            while mark.read_text() == "hang":
                time.sleep(0.02)
            raise RuntimeError("the data is not there")
        saved = context.checkpoint.restore()
        for batch in range(saved.batches if saved else 0, batches):
            loss = 0.5 if batch == 1 else 1.0
            context.train.report_validation_metrics(batch + 1, {{"validation_loss": loss}})
            if saved is None:
                time.sleep(0.02)
            if context.should_stop():
                context.checkpoint.save({{}}, batches=batch + 1)
                break
"""


def _until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_a_script_that_is_killed_or_fails_while_it_starts_loses_no_result(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    site = Site(tmp_path, SCRIPT.format(mark=str(mark)), entrypoint="python train.py",
                searcher={"name": "single", "max_length": "400ba"})  # fmt: skip

    def trial() -> Trial:
        return site.store.get(Trial, TRIAL)

    spec, process = site.start()
    _until(lambda: trial().done.batches > 3)
    site.flag(spec).set(Stop.DRAIN)
    drained = site.finish(spec, process).trial
    assert drained.best is not None
    assert drained.best.batches == 2

    mark.write_text("hang")
    spec, process = site.start()
    _until(lambda: trial().training_since not in (None, drained.training_since))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    assert (trial().done, trial().best) == (drained.done, drained.best)

    mark.write_text("fail")
    failed = site.run()
    assert failed.failure is not None
    assert (failed.trial.done, failed.trial.best) == (drained.done, drained.best)

    mark.unlink()
    ended = site.run()
    assert ended.outcome is not None
    assert ended.outcome.kind is ExitKind.COMPLETED
    assert (ended.trial.done.batches, ended.trial.best) == (400, drained.best)
    assert [batches for batches, _ in ended.rows["validation"]] == list(range(1, 401))
