from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.checkpoints.assurance.age import (
    LEAST_S,
    alarm,
    allowed_age,
    checkpoint_age,
    is_late,
    late_at,
    mark_of,
)
from burst.core.model import Trial
from burst.core.states import TrialState
from burst.core.testing.examples import NOW, trial

HOUR = 3600.0


def training(**fields: Any) -> Trial:
    """A trial that has trained for an hour; it was saved a minute ago, and is every two."""
    given_ = {
        "state": TrialState.RUNNING,
        "attempts": 2,
        "training_since": NOW - HOUR,
        "checkpoint": "ckpt-1m3k9zq4w7c",
        "checkpoint_at": NOW - 60,
        "checkpoint_interval": 120.0,
    }
    return trial(**{**given_, **fields})


def test_a_checkpoint_is_late_at_twice_its_interval_and_says_so() -> None:
    assert not is_late(training(), NOW)
    assert alarm(training(), NOW) == ""
    late = training(checkpoint_at=NOW - 241)
    assert is_late(late, NOW)
    assert alarm(late, NOW).startswith(
        "its newest checkpoint is 4m1s old, and one is due about every 2m"
    )


def test_without_a_checkpoint_the_age_counts_from_the_start_of_training() -> None:
    fresh = training(checkpoint="", checkpoint_at=None, training_since=NOW - 100)
    assert checkpoint_age(fresh, NOW) == 100
    assert not is_late(fresh, NOW)
    assert "has trained for 5m without a checkpoint" in alarm(fresh, NOW + 200)


def test_an_attempt_has_its_own_time_but_the_age_is_that_of_what_is_saved() -> None:
    """A trial that waited for a day is not late when it goes on."""
    resumed = training(checkpoint_at=NOW - 24 * HOUR, training_since=NOW - 5)
    assert checkpoint_age(resumed, NOW) == 24 * HOUR
    assert not is_late(resumed, NOW)
    assert is_late(resumed, NOW + 241)


@pytest.mark.parametrize(
    "fields",
    [
        {"training_since": None},
        {"checkpoint_interval": None},
        *({"state": state} for state in TrialState if state is not TrialState.RUNNING),
    ],
)
def test_nothing_is_late_where_nothing_is_expected(fields: dict[str, Any]) -> None:
    trial = training(checkpoint_at=NOW - 9 * HOUR, **fields)
    assert not is_late(trial, NOW)
    assert (allowed_age(trial), late_at(trial)) == (None, None)


def test_a_checkpoint_every_second_is_not_late_after_three() -> None:
    often = training(checkpoint_interval=1.0, checkpoint_at=NOW)
    assert not is_late(often, NOW + LEAST_S - 0.1)
    assert is_late(often, NOW + LEAST_S)


def test_a_clock_that_was_set_back_is_no_alarm_and_hides_none() -> None:
    late = training(checkpoint_at=NOW - 250)
    back = NOW - HOUR
    assert checkpoint_age(late, back) == 0.0
    assert not is_late(late, back)
    found = late.model_copy(update={"checkpoint_late": mark_of(late)})
    assert is_late(found, back)
    assert alarm(found, back).startswith("no checkpoint came for more than twice its time")


def test_what_was_found_late_is_over_with_the_next_checkpoint_or_attempt() -> None:
    late = training(checkpoint_late=mark_of(training()))
    assert is_late(late, NOW)
    assert not is_late(late.model_copy(update={"checkpoint": "ckpt-2"}), NOW)
    assert not is_late(late.model_copy(update={"attempts": 3}), NOW)


def test_the_alarm_tells_why_saving_fails() -> None:
    problem = (
        "the checkpoint at batch 3 was not saved: cannot write x\n  Why:  no space\n  Mend: -"
    )
    late = training(checkpoint_at=NOW - 250, checkpoint_problem=problem)
    assert alarm(late, NOW).endswith(
        "The newest attempt to save one failed: cannot write x: no space"
    )


@given(
    since=st.floats(-1e5, 1e5),
    saved=st.none() | st.floats(-1e5, 1e5),
    interval=st.floats(0.0, 1e4),
    now=st.floats(-1e5, 1e5),
)
def test_an_alarm_comes_once_time_has_passed_and_stays(
    since: float, saved: float | None, interval: float, now: float
) -> None:
    one = training(
        training_since=NOW + since,
        checkpoint_at=None if saved is None else NOW + saved,
        checkpoint_interval=interval,
    )
    late = is_late(one, NOW + now)
    assert bool(alarm(one, NOW + now)) is late
    assert (checkpoint_age(one, NOW + now) or 0.0) >= 0.0
    if late:
        assert is_late(one, NOW + now + 1)
        assert now - since >= 2 * interval
    assert is_late(one, (late_at(one) or 0.0) + 1)


def test_a_trial_that_is_held_though_its_last_save_failed_says_so() -> None:
    held = training(state=TrialState.PAUSED, checkpoint_problem="not saved: the disk is full")
    assert "what it trained last is not saved" in alarm(held, NOW)
    assert alarm(training(state=TrialState.PAUSED), NOW) == ""
