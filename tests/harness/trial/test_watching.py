"""What the loop measures and tells of its checkpoints, seen in the trial's record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burst.core.clock import ManualClock
from burst.core.errors import BurstError
from burst.core.model import Checkpoint, Trial
from burst.harness import Batch
from burst.harness.trial.expected import Expected, Usual
from burst.harness.trial.interval import FIRST_S, SHORTEST_S, Conditions
from burst.harness.trial.schedule import Periods, Schedule
from burst.harness.trial.units import Period
from tests.harness.trial.lab import TRIAL, Lab, TinyTrial

STEP_S = 5.0


class _Slow(TinyTrial):
    """Every batch takes five seconds of the lab's clock."""

    clock: Any = None

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.clock.advance(STEP_S)
        return super().train_batch(batch, epoch_idx, batch_idx)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = Lab(tmp_path)
    _Slow.clock = made.clock
    return made


def _saved(lab: Lab) -> list[int]:
    return [each.batches for each in lab.store.children(Checkpoint, TRIAL)]


def test_auto_saves_early_and_then_at_its_interval(lab: Lab) -> None:
    lab.attempt(_Slow, checkpoint_period="auto", max_length=Batch(10), validation_period=None)
    assert _saved(lab) == [FIRST_S / STEP_S, (FIRST_S + SHORTEST_S) / STEP_S, 10]


def test_the_record_tells_since_when_it_trains_and_when_a_checkpoint_is_due(lab: Lab) -> None:
    began = lab.clock.now()
    lab.attempt(_Slow, checkpoint_period=Batch(4), max_length=Batch(10), validation_period=None)
    trial = lab.store.get(Trial, TRIAL)
    assert trial.training_since == began
    assert trial.checkpoint_interval == 20.0


def test_where_nodes_are_lost_the_first_checkpoint_does_not_wait_for_its_period(lab: Lab) -> None:
    arguments: dict[str, Any] = {
        "checkpoint_period": Batch(6),
        "max_length": Batch(8),
        "validation_period": None,
    }
    opened = lab.session

    def early(asked: Any) -> Any:
        session = opened(asked)
        session.conditions = Conditions(early=True)
        return session

    lab.session = early  # type: ignore[method-assign]
    lab.attempt(_Slow, leave_after=4, **arguments)
    assert _saved(lab) == [2, 4]
    lab.attempt(_Slow, **arguments)
    assert _saved(lab) == [2, 4, 6, 8]


def test_a_disk_that_is_full_is_told_once_and_so_is_that_it_is_no_more(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    put, failing = lab.blobs.put_new, [True]

    def full(key: str, data: Any) -> None:
        if failing[0] and key.endswith("manifest.json"):
            raise OSError(28, "No space left on device")
        put(key, data)

    lab.blobs.put_new = full  # type: ignore[method-assign]

    class Mended(_Slow):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            failing[0] = batch_idx < 5
            return super().train_batch(batch, epoch_idx, batch_idx)

    lab.attempt(Mended, checkpoint_period=Batch(1), max_length=Batch(8), validation_period=None)
    assert _saved(lab) == [6, 7, 8]
    told = capsys.readouterr().err
    assert told.count("No space left on device") == 2
    assert told.count("Warning: the checkpoint at batch 1 was not saved") == 1
    assert "checkpoints work again; the 5 before failed" in told


# --- validations that take long ------------------------------------------------------------------


@pytest.fixture
def expected() -> Expected:
    """A checkpoint every minute."""
    schedule = Schedule(Periods(checkpoint=Period(seconds=60.0)), target=None)
    schedule.start(0.0)
    schedule.saved(1, 0.0, 0.1234, durable=0.1, saving=False)
    return Expected(schedule, ManualClock())


def _advance(expected: Expected, seconds: float) -> None:
    clock = expected._clock
    assert isinstance(clock, ManualClock)
    clock.advance(seconds)


def test_a_short_validation_changes_nothing(expected: Expected) -> None:
    with expected.validating():
        _advance(expected, 59.0)
        assert expected() == 60.0
    assert expected() == 60.0


def test_none_is_expected_during_a_long_validation_and_just_after_it(expected: Expected) -> None:
    with expected.validating():
        _advance(expected, 61.0)
        assert expected() is None
        _advance(expected, 600.0)
    assert expected() is None
    _advance(expected, 60.0)
    assert expected() == 60.0


def test_a_validation_that_fails_is_over(expected: Expected) -> None:
    def fail() -> None:
        with expected.validating():
            raise ValueError("no rows")

    with pytest.raises(ValueError, match="no rows"):
        fail()
    _advance(expected, 61.0)
    assert expected() == 60.0


def test_a_script_is_expected_to_save_as_often_as_it_did() -> None:
    clock = ManualClock()
    usual = Usual(clock)
    said = []
    for gap in (5.0, 40.0, 61.23456, 60.0, 62.0):
        clock.advance(gap)
        usual.saved()
        said.append(usual())
    assert said == [None, None, 40.0, 50.0, 60.0]


class _Disk:
    """A disk that takes no manifest until so many were refused."""

    def __init__(self, lab: Lab, refusals: int) -> None:
        self.refused = 0
        self._refusals = refusals
        self._put = lab.blobs.put_new
        lab.blobs.put_new = self._refuse  # type: ignore[method-assign]

    def _refuse(self, key: str, data: Any) -> None:
        if key.endswith("manifest.json") and self.refused < self._refusals:
            self.refused += 1
            raise OSError(28, "No space left on device")
        self._put(key, data)


def test_the_last_state_is_tried_again_for_as_long_as_leaving_may_take(lab: Lab) -> None:
    disk = _Disk(lab, 3)
    result = lab.attempt(_Slow, max_length=Batch(8), validation_period=None)
    assert result.outcome.durable
    assert disk.refused == 3
    assert _saved(lab) == [8]


def test_a_training_whose_result_cannot_be_saved_is_not_over(lab: Lab) -> None:
    disk = _Disk(lab, 10_000)
    with pytest.raises(BurstError, match="at batch 8 could not be saved, so training is not over"):
        lab.attempt(_Slow, max_length=Batch(8), validation_period=None)
    assert disk.refused > 5
    assert _saved(lab) == []


def test_a_drain_that_could_not_save_says_that_what_was_trained_is_repeated(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    _Disk(lab, 10_000)
    result = lab.attempt(_Slow, leave_after=4, max_length=Batch(8), validation_period=None)
    assert not result.outcome.durable
    assert "at batch 4 could not be saved; what it trained since its newest" in (
        capsys.readouterr().err
    )
