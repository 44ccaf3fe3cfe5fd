"""The small life that everything is tried on, and how it has to end."""

from __future__ import annotations

from collections.abc import Callable

from burst.core.model import Allocation, Exit, Node, Trial
from tests.runner.cloud.faults import Ended
from tests.runner.cloud.house import DIE, NOTICE, CloudHouse
from tests.runner.house import COMPLETED

MOST_MACHINES = 9
Make = Callable[..., CloudHouse]
"""Makes a house (`conftest.make`)."""


def small_life(trial: Trial, allocation: Allocation, node: Node, ran: float) -> Exit | str | None:
    """Of the single trials the first one's machine is reclaimed with a notice once; the gang's
    second machine is lost without one once; then they end."""
    gang = len(allocation.shares) > 1
    if allocation.attempt == 1 and not gang and trial.number == 0:
        return NOTICE if ran >= 5 else None
    if allocation.attempt == 1 and gang:
        return DIE if ran >= 10 and node.id == allocation.shares[1].node else None
    return COMPLETED if ran >= 15 else None


def submit_small_life(house: CloudHouse) -> None:
    """Two single trials and a gang over two nodes."""
    house.submit(
        searcher={"name": "grid", "max_concurrent_trials": 2},
        hyperparameters={"x": {"type": "categorical", "vals": [1, 2]}},
    )
    house.submit(resources={"slots_per_trial": 2})


def live(
    house: CloudHouse,
    *,
    turns: int = 300,
    each_turn: Callable[[int], None] | None = None,
    gap: int = 0,
) -> CloudHouse:
    """The small life to its end: everything over, and nothing that costs money.

    Args:
        gap: turns after which another runner takes over from one that has ended.
    """
    submit_small_life(house)
    alone = 0
    for number in range(turns):
        if each_turn is not None:
            each_turn(number)
        try:
            house.turn(run=alone == 0)
        except Ended:
            house.runner = house.new_runner()
            alone = gap + 1
        alone = max(0, alone - 1)
        if house.at_rest():
            return house
    raise AssertionError(f"it never comes to rest: {house.outcome()}\n{house.story()}")


def check(house: CloudHouse, *, machines: int = MOST_MACHINES) -> None:
    """All came to its end as it should, and what it cost was not much more."""
    found = house.outcome()
    assert found["completions"] == [1, 1, 1], house.story()
    assert found["live"] == (0, 0), house.story()
    assert found["left"] == [], house.story()
    assert {(state, restarts) for state, restarts, *_ in found["trials"]} == {("completed", 0)}
    assert house.made() <= machines, house.story()
