"""A node that leaves is replaced before its work has left it."""

from __future__ import annotations

from pathlib import Path

import pytest

from burst.core.model import DrainCause, Node
from burst.core.states import AllocationState, Reason, TrialState
from burst.core.store.port import Put
from burst.runner.commands import pause
from burst.runner.wishes import ask_to_leave
from tests.runner.house import House, forever


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A trial runs, and its node has just been told that it goes; its agent has yet to hear."""
    made = House(tmp_path, nodes=2, script=forever, idle=600.0)
    made.submit()
    made.run(until=lambda: _runs(made, 1))
    made.deaf = True
    (node,) = made.store.live(Node)
    (allocation,) = made.attempts(made.trial())
    now, reason = made.clock.now(), Reason(code="notice", text="it will be taken away")
    gone = {"noticed": now, "cordoned": now, "draining": now}
    made.store.commit(
        Put(node.model_copy(update=gone)),
        *ask_to_leave(allocation, DrainCause.NOTICE, reason, now, 60.0),
    )
    return made


def _runs(house: House, attempt: int) -> bool:
    if not house.trials():
        return False
    newest = house.attempts(house.trial())[-1:]
    return any(a.attempt == attempt and a.state is AllocationState.RUNNING for a in newest)


def test_the_replacement_is_asked_for_while_the_trial_still_drains(house: House) -> None:
    house.settle()
    assert len(house.store.live(Node)) == 2
    trial = house.trial()
    assert (trial.state, trial.attempts, trial.wait) == (TrialState.RUNNING, 1, None)
    house.run(5)
    assert len(house.store.live(Node)) == 2
    house.deaf = False
    house.run(until=lambda: _runs(house, 2))
    first, second = house.attempts(house.trial())
    assert first.shares[0].node != second.shares[0].node


def test_nothing_is_asked_for_a_trial_that_is_to_be_paused(house: House) -> None:
    pause(house.ws, house.trial().id, clock=house.clock)
    house.settle()
    assert len(house.store.live(Node)) == 1
