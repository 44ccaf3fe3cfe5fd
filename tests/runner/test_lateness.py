"""A checkpoint that does not come is told once, whatever clocks do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.checkpoints.assurance.age import is_late, mark_of
from burst.core.model import Event, Trial
from burst.core.states import TrialState
from burst.core.store.port import Put
from burst.core.testing.examples import NOW, trial
from burst.runner.reconcile.context import Seen
from burst.runner.reconcile.lateness import judge
from tests.runner.house import House, forever

INTERVAL = 60.0


@pytest.fixture
def house(tmp_path: Path) -> House:
    """One trial that trains and expects a checkpoint a minute; none has come yet."""
    made = House(tmp_path, script=forever)
    made.submit()
    made.run(until=lambda: bool(made.trials()) and made.trial().state is TrialState.RUNNING)
    write(made, training_since=made.clock.now(), checkpoint_interval=INTERVAL)
    made.settle()
    return made


def write(house: House, **fields: Any) -> None:
    house.store.commit(Put(house.trial().model_copy(update=fields)))


def save(house: House, id: str) -> None:
    write(house, checkpoint=id, checkpoint_at=house.clock.now())


def told(house: House) -> list[Event]:
    return [e for e in house.store.events().events if e.name == "checkpoint.late"]


def test_it_is_told_once_and_again_after_the_next_checkpoint(house: House) -> None:
    house.run(119)
    assert told(house) == []
    house.run(60)
    (event,) = told(house)
    assert "has trained for 2m" in event.text
    assert event.data == {"trial": house.trial().id, "checkpoint": ""}
    save(house, "ckpt-1")
    house.settle()
    assert not is_late(house.trial(), house.clock.now())
    house.run(130)
    assert [e.data["checkpoint"] for e in told(house)] == ["", "ckpt-1"]


def test_checkpoints_that_come_in_time_are_never_late(house: House) -> None:
    for number in range(5):
        house.run(100)
        save(house, f"ckpt-{number}")
        house.settle()
    assert told(house) == []


def test_two_runners_tell_it_once(house: House) -> None:
    other = house.new_runner()
    for _ in range(150):
        house.turn()
        other.step()
    assert len(told(house)) == 1


def test_a_runner_that_waits_for_nothing_else_comes_back_in_time(house: House) -> None:
    """The next pass is due when the checkpoint would be late, not only when something happens."""
    from burst.runner.reconcile.context import View
    from burst.runner.reconcile.lateness import reconcile_lateness

    context = house.runner._context
    view = View.read(house.store, context.pools)
    assert reconcile_lateness(context, view) == 2 * INTERVAL
    house.clock.advance(50)
    assert reconcile_lateness(context, view) == 2 * INTERVAL - 50


class Set:
    """A clock that somebody sets: the date jumps, the other time goes on."""

    def __init__(self, house: House) -> None:
        self._clock, self.jump = house.clock, 0.0

    def now(self) -> float:
        return self._clock.now() + self.jump

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_clock_that_is_set_neither_alarms_nor_delays(house: House, jump: float) -> None:
    clock = Set(house)
    house.runner._context.clock = clock
    save(house, "ckpt-1")
    house.settle()
    clock.jump = jump
    house.run(119)
    assert told(house) == []
    house.run(3)
    assert len(told(house)) == 1
    assert is_late(house.trial(), clock.now())


@given(
    age=st.floats(-4000, 4000), seen=st.floats(0, 4000), first=st.booleans(), skew=st.floats(-9, 9)
)
def test_a_verdict_and_the_time_of_the_next_agree(
    age: float, seen: float, first: bool, skew: float
) -> None:
    one = _running(checkpoint_at=NOW - age, training_since=NOW - 9000)
    known = Seen(mark_of(one), 100.0, from_the_start=not first)
    found = judge(one, known, NOW + skew, 100.0 + seen)
    assert found.late is (found.next_in is None)
    assert found.late or seen < 2 * INTERVAL
    if not first:
        assert found.late is (seen >= 2 * INTERVAL)
    if found.next_in is not None:
        later = found.next_in + 0.01
        assert judge(one, known, NOW + skew + later, 100.0 + seen + later).late


def _running(**fields: Any) -> Trial:
    return trial(
        state=TrialState.RUNNING,
        attempts=1,
        checkpoint="ckpt-1",
        checkpoint_interval=INTERVAL,
        **fields,
    )
