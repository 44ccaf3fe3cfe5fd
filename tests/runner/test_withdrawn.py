"""Machines that were taken away before they were ready say nothing of what they boot from."""

from __future__ import annotations

from pathlib import Path

import pytest

from burst.core.model import Node, Refusal, RefusalKind, Supply
from burst.core.store.port import Put
from burst.runner.supply import FAILURES_TO_STOP
from tests.runner.house import House

OFFER = "spot/us-east-1a/p5.48xlarge"


def refusal(now: float) -> Refusal:
    kind, text = RefusalKind.CAPACITY, "Spot instance termination"
    code = "Server.SpotInstanceTermination"
    return Refusal(kind=kind, code=code, text=text, at=now, until=now + 180.0)


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Its pool costs money, and no agent ever comes up."""
    house = House(tmp_path)
    house.pool.limits = house.pool.limits.__class__(1, 1, costs=True)
    house.submit()
    return house


def lose_next(house: House, *, told: bool, noticed: bool) -> Node:
    """The node that was launched next, whose machine is gone."""
    for _ in range(600):
        house.settle()
        found = [node for node in house.store.live(Node) if node.launched is not None]
        if found:
            break
        house.clock.advance(1.0)
    (node,) = found
    now = house.clock.now()
    if told:
        house.pool.taken_back[node.id] = {OFFER: refusal(now)}
    if noticed:
        house.store.commit(Put(node.model_copy(update={"noticed": now})))
    house.pool.die(node.id)
    house.clock.advance(1.0)
    house.settle()
    return house.store.get(Node, node.id)


@pytest.mark.parametrize(("told", "noticed"), [(True, False), (False, True), (True, True)])
def test_they_do_not_stop_their_pool_and_their_offers_rest(
    house: House, told: bool, noticed: bool
) -> None:
    for tries in range(1, FAILURES_TO_STOP + 2):
        node = lose_next(house, told=told, noticed=noticed)
        assert node.gone is not None
        assert node.gone_reason is not None
        assert node.gone_reason.code == "reclaimed"
        book = house.store.get(Supply, "local")
        assert (book.failures, book.stopped) == (0, None)
        if told:
            assert book.refusals[OFFER].tries == tries
            assert "Server.SpotInstanceTermination" in node.gone_reason.text


def test_others_do(house: House) -> None:
    for _ in range(FAILURES_TO_STOP):
        lose_next(house, told=False, noticed=False)
    assert house.store.get(Supply, "local").stopped is not None
