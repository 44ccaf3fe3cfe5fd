"""A store that is away for minutes: nothing is ended because of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burst.core.errors import Unreachable
from burst.core.model import Node
from burst.core.states import TrialState
from burst.core.store.port import Store
from tests.runner.house import House, forever


class Away:
    """A store that answers only while it is not away."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.away = False

    def __getattr__(self, name: str) -> Any:
        if self.away and name != "url":
            raise Unreachable("the store did not answer")
        return getattr(self._store, name)


@pytest.mark.parametrize("seconds", [20, 60, 300])
def test_a_store_that_was_away_for_runner_and_agents_ends_no_machine(
    tmp_path: Path, seconds: int
) -> None:
    house = House(tmp_path, script=forever)
    store: Any = Away(house.store)
    house.runner = house.new_runner(store)
    house.submit()
    house.run(5)
    (node,) = house.store.live(Node)
    store.away = True
    for _ in range(seconds):
        with pytest.raises(Unreachable):
            house.runner.step()
        house.clock.advance(1.0)
    store.away = False
    house.run(10)
    assert [each.id for each in house.store.live(Node)] == [node.id]
    assert house.pool.alive == [node.id]
    assert ("terminate", node.id) not in house.pool.calls
    assert house.trial().state is TrialState.RUNNING
    assert house.trial().attempts == 1


def test_an_agent_that_stays_silent_after_an_outage_is_still_found(tmp_path: Path) -> None:
    house = House(tmp_path, script=forever)
    store: Any = Away(house.store)
    house.runner = house.new_runner(store)
    house.submit()
    house.run(5)
    (node,) = house.store.live(Node)
    house.silent.add(node.id)
    store.away = True
    with pytest.raises(Unreachable):
        house.runner.step()
    house.clock.advance(300)
    store.away = False
    house.run(25)
    assert house.pool.alive == [node.id]
    house.run(15)
    assert node.id not in house.pool.alive
