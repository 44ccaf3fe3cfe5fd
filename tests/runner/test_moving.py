"""A trial goes where a person wants it, and a pool that was stopped goes on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from burst.core.config.cluster import ClusterConfig, LocalPool
from burst.core.errors import NotFound, Refused
from burst.core.model import DrainCause, Event, Refusal, RefusalKind, Supply, Trial
from burst.core.states import AllocationState, Reason, TrialState
from burst.core.store.port import Put
from burst.runner.commands import cancel, move, pause, resume, resume_pool
from tests.runner.house import forever
from tests.runner.test_proof import CKPT, TwoPools


class Movable(TwoPools):
    """This machine, and another pool whose machines may be taken away."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        pools = {
            "local": LocalPool(idle=600.0, slots=1),
            "spot": LocalPool(idle=600.0, slots=1, loses_nodes=True),
        }
        self.ws = type(self.ws)(folder, ClusterConfig(pools=pools), self.store, self.ws.blobs)
        self.runner = self.new_runner()
        self.script = forever

    def move(self, pool: str, **how: Any) -> Trial:
        return move(self.ws, self.first().id, pool, clock=self.clock, **how)

    def events(self) -> list[Event]:
        return [e for e in self.store.events("").events if e.name == "trial.moved"]


@pytest.fixture
def house(tmp_path: Path) -> Movable:
    made = Movable(tmp_path)
    made.submit(resources={"pools": ["local"]})
    made.run(until=lambda: made.runs_in("local"))
    made.write(proved=CKPT)
    return made


def test_a_running_trial_drains_and_goes_on_in_the_pool_and_stays_there(house: Movable) -> None:
    house.move("spot")
    (leaving,) = [each for each in house.attempts(house.first()) if each.live]
    assert leaving.state is AllocationState.DRAINING
    assert leaving.drain is not None
    assert leaving.drain.cause is DrainCause.MOVE
    house.run(until=lambda: house.runs_in("spot"))
    assert house.first().pools == ("spot",)
    assert house.first().attempts == 2
    assert house.first().restarts == 0
    house.run(30)
    assert house.runs_in("spot")


def test_moving_again_to_the_same_pool_changes_nothing(house: Movable) -> None:
    first = house.move("spot")
    assert house.move("spot") == first
    house.run(until=lambda: house.runs_in("spot"))
    settled = house.first()
    assert house.move("spot") == settled
    assert len(house.events()) == 1


def test_a_trial_that_lists_the_pool_it_runs_in_is_bound_to_it_without_a_pause(
    tmp_path: Path,
) -> None:
    made = Movable(tmp_path)
    made.submit(resources={"pools": ["local", "spot"]})
    made.run(until=lambda: made.runs_in("local"))
    made.move("local")
    made.run(10)
    assert made.first().pools == ("local",)
    assert made.first().attempts == 1


def test_a_waiting_trial_only_changes_its_pool(house: Movable) -> None:
    house.submit(name="second", resources={"pools": ["local"]})
    house.run(5)
    second = next(t for t in house.store.live(Trial) if t.state is TrialState.WAITING)
    assert second.wait is not None
    moved = move(house.ws, second.id, "spot", clock=house.clock)
    assert (moved.wait, moved.wait_until) == (None, None), "that was said of the other pool"
    assert (moved.state, moved.pools, moved.queued) == (
        TrialState.WAITING,
        ("spot",),
        second.queued,
    )
    house.run(until=lambda: house.store.get(Trial, second.id).pool == "spot")
    assert house.runs_in("local")


def test_a_trial_that_backs_off_after_a_failure_does_so_in_the_other_pool_too(
    house: Movable,
) -> None:
    pause(house.ws, house.first().id, clock=house.clock)
    house.run(until=lambda: house.first().state is TrialState.PAUSED)
    wait, until = Reason(code="backing-off", text="attempt 1 crashed"), house.clock.now() + 60.0
    house.write(state=TrialState.WAITING, wait=wait, wait_until=until)
    moved = house.move("spot")
    assert (moved.wait, moved.wait_until) == (wait, until)


def test_a_paused_trial_stays_paused_and_is_resumed_in_the_pool(house: Movable) -> None:
    id = house.first().id
    pause(house.ws, id, clock=house.clock)
    house.run(until=lambda: house.first().state is TrialState.PAUSED)
    house.move("spot")
    house.run(10)
    assert house.first().state is TrialState.PAUSED
    resume(house.ws, id, clock=house.clock)
    house.run(until=lambda: house.runs_in("spot"))


def test_a_trial_that_drains_for_a_pause_is_paused_and_not_moved_at_once(house: Movable) -> None:
    pause(house.ws, house.first().id, clock=house.clock)
    house.move("spot")
    house.run(until=lambda: house.first().state is TrialState.PAUSED)
    assert house.first().pools == ("spot",)


def test_an_unknown_pool_is_not_found_with_the_nearest(house: Movable) -> None:
    for call in (house.move, partial(resume_pool, house.ws)):
        with pytest.raises(NotFound, match="no pool 'spto'") as caught:
            call("spto")
        assert "did you mean 'spot'" in str(caught.value)
    assert house.first().pools == ("local",)


def test_a_pool_that_it_can_never_run_in_is_refused(tmp_path: Path) -> None:
    made = Movable(tmp_path)
    made.submit(resources={"pools": ["local"], "slots_per_trial": 2})
    made.settle()
    with pytest.raises(Refused, match="a trial of 2 slots can never run in pool 'spot'"):
        made.move("spot")


def test_what_is_over_or_ending_is_refused(house: Movable) -> None:
    cancel(house.ws, house.first().id, clock=house.clock)
    with pytest.raises(Refused, match="cannot be moved") as refused:
        house.move("spot")
    assert refused.value.why == "it is ending already"
    house.run(until=lambda: house.first().state is TrialState.CANCELLED)
    with pytest.raises(Refused, match="cannot be moved"):
        house.move("spot")


@pytest.mark.parametrize("state", ["running", "paused"])
def test_an_unproved_trial_is_not_moved_to_where_nodes_are_lost(
    house: Movable, state: str
) -> None:
    if state == "paused":
        pause(house.ws, house.first().id, clock=house.clock)
        house.run(until=lambda: house.first().state is TrialState.PAUSED)
    house.write(proved="", checkpoint=CKPT)
    with pytest.raises(Refused, match="cannot be moved to pool 'spot' yet") as refused:
        house.move("spot")
    assert "--unproved" in refused.value.mend
    assert house.first().pools == ("local",)
    assert house.move("spot", unproved=True).pools == ("spot",)


def test_a_fresh_trial_and_one_that_is_where_nodes_are_lost_need_no_proof(
    tmp_path: Path,
) -> None:
    made = Movable(tmp_path)
    made.submit(resources={"pools": ["local"]})
    made.home.refusal = "no"
    made.settle()
    made.move("spot")
    made.run(until=lambda: made.runs_in("spot"))
    made.write(checkpoint=CKPT)
    made.home.refusal = ""
    made.move("local")
    made.run(until=lambda: made.runs_in("local"))


def test_a_stopped_pool_is_resumed_and_what_was_counted_against_it_is_forgotten(
    house: Movable,
) -> None:
    refusal = Refusal(
        kind=RefusalKind.QUOTA, code="VcpuLimitExceeded", text="0", at=1.0, until=9e9
    )
    stopped = Supply(
        id="spot",
        failures=3,
        failure="no driver",
        refusals={"*": refusal},
        stopped=Reason(code="failing", text="three in a row"),
    )
    house.store.commit(Put(stopped))
    resumed = resume_pool(house.ws, "spot", clock=house.clock)
    assert (resumed.stopped, resumed.failures, resumed.failure) == (None, 0, "")
    assert dict(resumed.refusals) == {}
    assert resume_pool(house.ws, "spot", clock=house.clock) == resumed
    assert [e.name for e in house.store.events("").events].count("pool.resumed") == 1


def test_resuming_a_pool_that_never_was_in_trouble_changes_nothing(house: Movable) -> None:
    resume_pool(house.ws, "spot", clock=house.clock)
    assert house.store.find(Supply, "spot") is None
    with pytest.raises(NotFound, match="no pool 'nowhere'"):
        resume_pool(house.ws, "nowhere", clock=house.clock)
