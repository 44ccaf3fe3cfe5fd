"""Pools that can have no machine as they are set up: booked, told, asked ever more rarely."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from burst.core.errors import Unreachable
from burst.core.model import Node, Supply, Trial
from burst.core.states import TrialState
from burst.runner.pools.aws.catalog import Catalog
from burst.runner.supply import EVERY_OFFER, MISFIT
from tests.runner.cloud.faults import Acts
from tests.runner.cloud.house import CONFIG, CloudHouse
from tests.runner.cloud.life import Make
from tests.runner.cloud.model import POOL, Model

MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "a zone without a subnet": ({"zones": ("us-east-1z",)}, "us-east-1z"),
    "no such type": ({"instance_types": ("g99.large",)}, "g99.large"),
    "no such type, slots not known": (
        {"instance_types": ("g99.large",), "slots_per_node": None},
        "g99.large",
    ),
    "unequal slots": (
        {"instance_types": ("c5.large", "c5.xlarge"), "slots_per_node": None},
        "differ in slots",
    ),
}


def turn(house: CloudHouse, times: int) -> None:
    for _ in range(times):
        house.turn()


def only_trial(house: CloudHouse) -> Trial:
    (trial,) = house.trials()
    return trial


@pytest.mark.parametrize(("fields", "word"), MISFITS.values(), ids=MISFITS)
def test_what_is_set_up_wrong_is_booked_and_told_and_asked_ever_more_rarely(
    make: Make, fields: dict[str, Any], word: str
) -> None:
    acts = Acts()
    house = make(configs={POOL: CONFIG.model_copy(update=fields)}, acts=acts)
    house.submit()
    turn(house, 3)
    refusal = house.store.get(Supply, POOL).refusals[EVERY_OFFER]
    assert (refusal.code, refusal.kind) == (MISFIT, "permission")
    assert word in refusal.text
    assert ";" in refusal.text, "what, why and how to mend it"
    trial = only_trial(house)
    assert trial.wait is not None
    assert trial.wait.code == "no-node"
    assert trial.wait.text.startswith(f"pool {POOL} could not start a node: {MISFIT}: ")
    assert trial.wait_until == pytest.approx(refusal.until)
    tried = set()
    for _ in range(int(7200 / 5)):
        house.turn()
        tried.add(house.store.get(Supply, POOL).refusals[EVERY_OFFER].tries)
        assert "all of its" not in str(only_trial(house).wait)
    assert tried == set(range(1, 9)), "60 s, 120 s, … 1800 s"
    refusal = house.store.get(Supply, POOL).refusals[EVERY_OFFER]
    assert refusal.until - refusal.at == 1800.0
    asked = Counter(acts.names)
    assert asked["describe_instance_types"] + asked["describe_subnets"] <= 2 * len(tried)
    assert not house.store.children(Node, "")
    told = [each.name for each in house.store.events().events]
    assert told.count("pool.refused") == 1


def test_a_cluster_without_a_subnet_is_told_so(
    make: Make, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = make()
    without: dict[str, Any] = {"Subnets": [], "ResponseMetadata": {}}
    monkeypatch.setattr(model.client, "describe_subnets", lambda **asked: without)
    house.submit()
    turn(house, 3)
    assert "no subnet" in str(only_trial(house).wait)
    monkeypatch.undo()
    house.model.advance(61.0)
    turn(house, 20)
    assert only_trial(house).state in (TrialState.RUNNING, TrialState.COMPLETED)
    assert not house.store.get(Supply, POOL).refusals, "it is mended"


def test_a_further_pool_opens_at_once_behind_one_that_can_have_no_machine(make: Make) -> None:
    bad = CONFIG.model_copy(update={"zones": ("us-east-1z",)})
    house = make(configs={"bad": bad})
    house.submit(resources={"pools": ["bad", POOL], "burst_after": 3600.0})
    turn(house, 4)
    assert [node.pool for node in house.store.live(Node)] == [POOL]


def test_a_pool_that_does_not_answer_books_nothing_and_keeps_no_other_from_its_work(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Catalog.slots

    def slots(catalog: Catalog) -> int:
        if catalog._pool == "away":
            raise Unreachable("EC2 does not answer")
        return known(catalog)

    monkeypatch.setattr(Catalog, "slots", slots)
    house = make(configs={"away": CONFIG})
    house.submit(resources={"pools": ["away"]})
    house.submit(resources={"pools": [POOL]})
    turn(house, 3)
    assert [node.pool for node in house.store.live(Node)] == [POOL]
    assert house.store.find(Supply, "away") is None
    waits = {str(trial.wait) for trial in house.trials() if trial.pools == ("away",)}
    assert waits == {"it is not known yet what a node of pool away has; it is asked again"}
