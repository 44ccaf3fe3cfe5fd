"""A node that has left in order is not called lost, whatever can be seen of its machine."""

from __future__ import annotations

from typing import Any

import pytest

from burst.core.model import Node
from burst.core.states import Reason
from burst.runner.agent.serving.registration import leave
from burst.runner.pools.aws import AwsPool
from burst.runner.pools.port import Liveness
from burst.runner.reconcile.observer import Observer
from tests.runner.cloud.house import CloudHouse
from tests.runner.cloud.life import Make
from tests.runner.cloud.model import Skewed
from tests.runner.house import COMPLETED


def with_a_node(make: Make) -> tuple[CloudHouse, Node]:
    house = make(lambda trial, allocation, node, ran: COMPLETED if ran >= 15 else None)
    house.submit()
    for _ in range(60):
        house.turn()
        ready = [node for node in house.store.live(Node) if node.ready is not None]
        if ready:
            return house, ready[0]
    raise AssertionError(house.story())


def go(house: CloudHouse, node: Node) -> None:
    lease = None
    leave(house.ws, node.id, lease, Reason(code="drained"), Skewed(house.model))


def until_gone(house: CloudHouse, node: Node) -> Node:
    for _ in range(200):
        house.turn()
        found = house.store.get(Node, node.id)
        if found.gone is not None:
            return found
    raise AssertionError(house.story())


def test_a_node_that_leaves_while_its_lease_is_found_to_have_ended_has_left(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, node = with_a_node(make)
    house.silent.add(node.handle["instance"])
    known = Observer.expired
    left: list[str] = []

    def expired(observer: Observer, id: str, *seen: Any) -> bool:
        over = known(observer, id, *seen)
        if over and id == node.id and not left:
            left.append(id)
            go(house, node)
        return over

    monkeypatch.setattr(Observer, "expired", expired)
    gone = until_gone(house, node)
    assert left
    assert gone.gone_reason == Reason(code="left", text="it has left")


def test_a_node_that_has_left_is_not_lost_while_its_pool_sees_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, node = with_a_node(make)
    while house.store.get(Node, node.id).terminating is None:
        house.turn()
    with monkeypatch.context() as blind:
        blind.setattr(
            AwsPool, "observe", lambda pool, nodes: {n.id: Liveness.UNKNOWN for n in nodes}
        )
        for _ in range(40):
            house.turn()
        found = house.store.get(Node, node.id)
        assert (found.gone, found.gone_reason) == (None, None)
    gone = until_gone(house, node)
    assert gone.gone_reason == Reason(code="left", text="it has left")
