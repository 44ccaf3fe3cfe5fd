from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.harness.agreement import Wish
from burst.harness.trial.interval import (
    DURABLE_FACTOR,
    FIRST_S,
    LONGEST_S,
    SHORTEST_S,
    Conditions,
    auto_interval,
    daly,
    young,
)
from burst.harness.trial.pace import BLOCK, Pace
from burst.harness.trial.schedule import Periods, Schedule
from burst.harness.trial.units import Period

HOUR = 3600.0
costs = st.floats(0.001, 600.0)
losses = st.floats(60.0, 30 * 86400.0)


def run_time(interval: float, cost: float, between: float, restart: float = 0.0) -> float:
    """Daly's complete model: wall time for a second of training, with losses at random."""
    each = math.exp(min(restart / between, 50.0)) * math.expm1((interval + cost) / between)
    return between * each / interval


@given(cost=costs, between=losses, restart=st.floats(0.0, 600.0))
def test_no_other_interval_is_notably_better_whatever_a_restart_takes(
    cost: float, between: float, restart: float
) -> None:
    if cost >= between / 2:
        return
    best = run_time(daly(cost, between), cost, between, restart)
    for factor in (0.25, 0.5, 0.7, 0.9, 1.1, 1.5, 2.0, 4.0):
        other = run_time(factor * daly(cost, between), cost, between, restart)
        assert best <= other * 1.001


@given(between=losses, cost=costs)
def test_young_and_daly_agree_where_checkpoints_are_cheap(between: float, cost: float) -> None:
    cheap = min(cost, between / 1e5)
    assert daly(cheap, between) == pytest.approx(young(cheap, between), rel=0.01)


def test_known_intervals() -> None:
    assert young(2.0, 4 * HOUR) == 240.0
    assert daly(2.0, 4 * HOUR) == pytest.approx(238.7, abs=0.1)
    assert daly(3 * HOUR, HOUR) == HOUR  # a checkpoint that is rarely finished before a loss


@given(cost=st.floats(0.0, 1e5), between=st.floats(0.0, 1e9), durable=st.floats(0.0, 1e4))
def test_the_interval_keeps_its_bounds_and_never_lets_saves_pile_up(
    cost: float, between: float, durable: float
) -> None:
    interval = auto_interval(cost, between, durable)
    assert interval >= max(SHORTEST_S, DURABLE_FACTOR * durable)
    assert interval <= max(LONGEST_S, DURABLE_FACTOR * durable)


def test_dearer_checkpoints_are_rarer_and_more_losses_make_them_more_frequent() -> None:
    assert auto_interval(0.0, 4 * HOUR) == SHORTEST_S
    assert SHORTEST_S < auto_interval(1.0, 4 * HOUR) < auto_interval(4.0, 4 * HOUR) < LONGEST_S
    assert auto_interval(1000.0, 4 * HOUR) == LONGEST_S
    assert auto_interval(1.0, HOUR) < auto_interval(1.0, 4 * HOUR) < auto_interval(1.0, 24 * HOUR)


# --- what a checkpoint costs, on a clock that is told -------------------------------------------


class Loop:
    """A training loop in simulated time."""

    def __init__(self, pace: Pace) -> None:
        self.pace, self.now = pace, 0.0
        pace.start(0.0)

    def steps(self, *seconds: float, saving: bool = False) -> None:
        for each in seconds:
            self.now += each
            self.pace.stepped(self.now, saving)

    def save(self, stall: float, *steps: float) -> None:
        """A save that stalls, and is over within the last of `steps`."""
        self.now += stall
        self.pace.saved(stall, bool(steps))
        self.pace.start(self.now)
        for number, each in enumerate(steps, start=1):
            self.steps(each, saving=number < len(steps))


def test_a_save_in_the_foreground_costs_its_stall() -> None:
    loop = Loop(Pace())
    assert loop.pace.cost is None
    loop.steps(*[0.1] * 20)
    loop.save(2.5)
    assert loop.pace.cost == 2.5


def test_a_save_in_the_background_costs_what_it_slows_the_steps_down_by() -> None:
    loop = Loop(Pace())
    loop.steps(*[0.1] * 40)
    loop.save(0.002, 0.15, 0.15, 0.35, 0.1)  # the third waits at the gate
    assert loop.pace.step == pytest.approx(0.1)
    assert loop.pace.cost == pytest.approx(0.002 + 0.05 + 0.05 + 0.25)


def test_one_unlucky_save_and_one_pause_of_the_machine_do_not_decide() -> None:
    loop = Loop(Pace())
    for round_ in range(7):
        pauses = [9.0] if round_ == 2 else [0.1]
        loop.steps(*[0.1] * 30, *pauses, *[0.1] * 9)
        loop.save(0.01, 20.0 if round_ == 3 else 0.2, 0.1)
    assert loop.pace.step == pytest.approx(0.1)
    assert loop.pace.cost == pytest.approx(0.11)


@pytest.mark.parametrize("frequency", [2, 4, 8])
def test_steps_that_differ_by_plan_are_no_slow_down(frequency: int) -> None:
    """Accumulated gradients: every n-th batch is dear, with and without a save."""
    loop = Loop(Pace())
    pattern = [0.1] * (frequency - 1) + [1.0]
    for _ in range(9):
        loop.steps(*pattern * 16)
        loop.save(0.05, *pattern * 2)
    assert loop.pace.cost == pytest.approx(0.05, abs=1e-9)


def test_noise_is_no_cost_and_never_hides_the_stall() -> None:
    random.seed(5)
    loop = Loop(Pace())
    for _ in range(9):
        loop.steps(*(random.uniform(0.08, 0.12) for _ in range(60)))
        loop.save(0.02, *(random.uniform(0.08, 0.12) for _ in range(10)))
    assert 0.02 <= (loop.pace.cost or 0.0) <= 0.07


def test_before_steps_are_known_only_the_stall_counts() -> None:
    loop = Loop(Pace())
    loop.steps(*[0.1] * (BLOCK - 1))
    loop.save(0.5, 1.0, 1.0)
    assert (loop.pace.step, loop.pace.cost) == (None, 0.5)


def test_what_is_no_step_is_not_measured_as_one() -> None:
    loop = Loop(Pace())
    for _ in range(4):
        loop.steps(*[0.1] * BLOCK)
        loop.now += 30.0  # a validation
        loop.pace.start(loop.now)
    assert loop.pace.step == pytest.approx(0.1)


def test_a_save_that_overtakes_another_settles_it() -> None:
    pace = Pace()
    pace.start(0.0)
    pace.saved(1.0, saving=True)
    pace.saved(3.0, saving=True)
    assert pace.cost == 1.0
    assert pace.stepped(1.0, saving=True) is False
    assert pace.stepped(2.0, saving=False) is True
    assert pace.cost == 2.0  # the median of both


# --- the schedule --------------------------------------------------------------------------------


def _auto(**conditions: float | bool) -> Schedule:
    return Schedule(
        Periods(auto=True), target=None, conditions=Conditions(**conditions)  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_fresh_trial_saves_soon_and_then_as_its_cost_says() -> None:
    schedule = _auto(between_losses=HOUR)
    schedule.start(0.0)
    assert schedule.overdue(FIRST_S - 0.1, 0.0) == Wish.NOTHING
    assert schedule.overdue(FIRST_S, 0.0) == Wish.CHECKPOINT
    schedule.saved(50, 12.0, 2.0, durable=0.0, saving=False)
    assert schedule.expected() == auto_interval(2.0, HOUR) == pytest.approx(118.7, abs=0.1)
    assert schedule.overdue(12.0 + 118.0, 0.0) == Wish.NOTHING
    assert schedule.overdue(12.0 + 119.0, 0.0) == Wish.CHECKPOINT


def test_a_trial_that_goes_on_has_a_checkpoint_already() -> None:
    schedule = _auto()
    schedule.start(0.0, batches=100, fresh=False)
    assert schedule.overdue(SHORTEST_S - 1, 0.0) == Wish.NOTHING
    assert schedule.overdue(SHORTEST_S, 0.0) == Wish.CHECKPOINT


def test_slow_storage_makes_auto_wait_for_it() -> None:
    schedule = _auto()
    schedule.start(0.0)
    schedule.saved(1, 1.0, 0.001, durable=400.0, saving=False)
    assert schedule.expected() == 800.0


@pytest.mark.parametrize(
    "period", [Period(every=1000), Period(seconds=HOUR), Period(at=frozenset({7})), Period()]
)
def test_where_nodes_are_lost_the_first_checkpoint_is_early_and_the_period_stays(
    period: Period,
) -> None:
    for early in (False, True):
        schedule = Schedule(
            Periods(checkpoint=period), target=None, conditions=Conditions(early=early)
        )
        schedule.start(0.0)
        assert (schedule.overdue(FIRST_S, 0.0) == Wish.CHECKPOINT) is early
        schedule.saved(3, FIRST_S, 0.1, durable=0.1, saving=False)
        assert schedule.overdue(2 * FIRST_S, 0.0) == Wish.NOTHING
        assert schedule.next_boundary(4) == period.next(4)
        assert schedule.timed is (period.seconds is not None)


def test_a_period_in_batches_is_expected_in_seconds() -> None:
    schedule = Schedule(Periods(checkpoint=Period(every=100)), target=None)
    schedule.start(0.0)
    assert schedule.expected() is None
    now = 0.0
    for _ in range(BLOCK):
        now += 0.5
        schedule.pace.stepped(now, False)
    assert schedule.expected() == pytest.approx(50.0)  # so far all that is known are steps
    for number in range(1, 4):  # with a validation in between, it takes longer
        schedule.saved(100 * number, 80.0 * number, 0.1, durable=0.1, saving=False)
    assert schedule.expected() == pytest.approx(80.0)
    schedule.saved(333, 250.0, 0.1, durable=0.1, saving=False)  # as the policy wanted one
    assert schedule.expected() == pytest.approx(80.0)


def test_nothing_is_expected_where_no_period_asks_for_it() -> None:
    schedule = Schedule(Periods(checkpoint=Period(at=frozenset({5}))), target=None)
    schedule.start(0.0)
    schedule.saved(5, 3.0, 0.1, durable=0.1, saving=False)
    assert schedule.expected() is None


def test_no_checkpoint_is_expected_sooner_than_a_step_and_twice_the_time_it_takes() -> None:
    schedule = Schedule(Periods(checkpoint=Period(seconds=2.0)), target=None)
    schedule.start(0.0)
    for step in range(1, BLOCK + 1):
        schedule.pace.stepped(30.0 * step, False)
    assert schedule.expected() == 30.0
    schedule.saved(1, 300.0, 0.1, durable=40.0, saving=True)
    assert schedule.expected() == 80.0


def test_several_ranks_that_agree_a_batch_later_save_once() -> None:
    schedule = Schedule(Periods(checkpoint=Period(seconds=10.0)), target=None)
    schedule.start(0.0)
    on_its_way, saves = Wish.NOTHING, []
    for second in range(1, 35):
        agreed, on_its_way = on_its_way, schedule.overdue(float(second), 0.0)
        if agreed & Wish.CHECKPOINT:
            saves.append(second)
            schedule.saved(second, float(second), 0.1, durable=0.1, saving=False)
    assert saves == [11, 22, 33]
