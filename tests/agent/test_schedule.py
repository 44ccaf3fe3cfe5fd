"""When an attempt is asked, told and made to leave."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.model import Drain, DrainCause
from burst.runner.agent.running.schedule import (
    ABANDON_AFTER_S,
    KILL_AFTER_S,
    Schedule,
    Step,
    at_lease_end,
    schedule_of,
)

moments = st.one_of(st.floats(0, 1e6), st.just(math.inf))
schedules = st.builds(Schedule, moments, moments, moments)


def test_a_drain_is_asked_at_once_and_forced_at_its_deadline() -> None:
    drain = Drain(cause=DrainCause.PAUSE, at=1000.0, deadline=1030.0)
    schedule = schedule_of(drain, grace=120.0, wall=1010.0, now=5.0)
    assert schedule == Schedule(ask=5.0, terminate=25.0, kill=25.0 + KILL_AFTER_S)


def test_a_drain_without_a_deadline_has_the_experiments_grace_from_when_it_is_heard() -> None:
    drain = Drain(cause=DrainCause.PREEMPT, at=0.0)
    assert schedule_of(drain, grace=7.0, wall=1e9, now=5.0).terminate == 12.0


def test_a_deadline_that_has_passed_still_asks_first() -> None:
    drain = Drain(cause=DrainCause.NOTICE, at=0.0, deadline=10.0)
    schedule = schedule_of(drain, grace=120.0, wall=500.0, now=5.0)
    assert schedule == Schedule(ask=5.0, terminate=5.0, kill=5.0 + KILL_AFTER_S)


def test_a_kill_is_at_once() -> None:
    drain = Drain(cause=DrainCause.KILL, at=0.0, deadline=1e12)
    assert schedule_of(drain, grace=120.0, wall=0.0, now=5.0).due(5.0) is Step.KILL


def test_everything_is_over_when_the_lease_is() -> None:
    schedule = at_lease_end(100.0, margin=10.0)
    assert schedule.due(89.9) is Step.NOTHING
    assert schedule.due(90.0) is Step.ASK
    assert schedule.due(99.0) is Step.KILL


@pytest.mark.parametrize(
    ("now", "step"),
    [
        (0.0, Step.NOTHING),
        (1.0, Step.ASK),
        (2.0, Step.TERMINATE),
        (3.0, Step.KILL),
        (3.0 + ABANDON_AFTER_S, Step.ABANDON),
    ],
)
def test_steps_come_in_order(now: float, step: Step) -> None:
    assert Schedule(ask=1.0, terminate=2.0, kill=3.0).due(now) is step


@given(schedules, schedules, st.floats(0, 2e6))
def test_two_schedules_together_never_do_less_than_either(
    one: Schedule, other: Schedule, now: float
) -> None:
    both = one.sooner(other)
    assert both.due(now) == max(one.due(now), other.due(now))
    assert both == other.sooner(one) == both.sooner(one)


@given(schedules, st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_step_that_is_due_stays_due(schedule: Schedule, now: float, later: float) -> None:
    assert schedule.due(now) <= schedule.due(now + later)
