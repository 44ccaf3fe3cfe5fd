"""What the cloud has is compared with what records answer for; the rest is ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.config.cluster import AwsPool, ClusterConfig
from burst.core.errors import Unreachable
from burst.core.model import Node, Supply
from burst.core.retrying import Retries
from burst.core.store.dynamodb.store import DynamoStore
from burst.core.store.port import Put
from burst.core.testing import examples
from burst.core.testing.ministack import ENVIRON, free_url
from burst.runner.audit import (
    GRACE_S,
    LEFTOVER_GRACE_S,
    Verdict,
    audit,
    judge_leftover,
    judge_machine,
    unexplained,
)
from burst.runner.pools.fake import FakePool
from burst.runner.pools.port import Leftover, Liveness, Machine
from burst.runner.reconcile.strays import LEFTOVERS_EVERY_S, SWEEP_EVERY_S
from burst.runner.supply import FAILURES_TO_STOP
from tests.core.store.mock_dynamodb import mock_dynamodb
from tests.runner.house import House

LAUNCH = "launch-1m3k9zq4w7c"


def machine(**fields: Any) -> Machine:
    made = {"id": "i-1", "launch": LAUNCH, "liveness": Liveness.ALIVE, "age": 1000.0}
    return Machine(**{**made, **fields})


def node(**fields: Any) -> Node:
    return examples.node(pool="spot", launch=LAUNCH, gone=None, **fields)


@pytest.mark.parametrize(
    ("nodes", "age", "verdict"),
    [
        ([node(handle={"instance": "i-1"})], 1000.0, Verdict.OWNED),
        ([node(handle={})], 1000.0, Verdict.OWNED),
        ([node(handle={"instance": "i-2"})], 1000.0, Verdict.STRAY),
        ([], 1000.0, Verdict.STRAY),
        ([], GRACE_S - 1, Verdict.YOUNG),
        ([], None, Verdict.YOUNG),
        ([examples.node(launch="launch-other", handle={})], 1000.0, Verdict.STRAY),
    ],
)
def test_a_machine_is_owned_by_its_node_or_awaited_by_its_request(
    nodes: list[Node], age: float | None, verdict: Verdict
) -> None:
    assert judge_machine("spot", machine(age=age), nodes).verdict is verdict


def test_a_machine_without_a_request_is_never_awaited_by_nodes_without_one() -> None:
    joined = examples.node(launch="", handle={})
    assert judge_machine("spot", machine(launch=""), [joined]).verdict is Verdict.STRAY


@pytest.mark.parametrize(
    ("nodes", "age", "verdict"),
    [
        ([node(handle={"instance": "i-1"})], 1e6, Verdict.OWNED),
        ([], LEFTOVER_GRACE_S - 1, Verdict.YOUNG),
        ([], LEFTOVER_GRACE_S, Verdict.STRAY),
        ([], None, Verdict.STRAY),
    ],
)
def test_what_is_no_machine_goes_with_its_request(
    nodes: list[Node], age: float | None, verdict: Verdict
) -> None:
    leftover = Leftover("volume", "vol-1", age, LAUNCH)
    assert judge_leftover("spot", leftover, nodes).verdict is verdict


@given(st.lists(st.sampled_from(["", "i-1", "i-2", "i-3"]), max_size=4), st.integers(1, 4))
def test_of_more_machines_than_nodes_the_surplus_is_found_once_each_node_has_its_own(
    handles: list[str], machines: int
) -> None:
    named = list(dict.fromkeys(handles))
    nodes = [node(handle={"instance": each} if each else {}) for each in named]
    found = [judge_machine("spot", machine(id=f"i-{n + 1}"), nodes) for n in range(machines)]
    strays = [each for each in found if each.verdict is Verdict.STRAY]
    owned = {f"i-{n + 1}" for n in range(machines)} & set(named)
    assert len(strays) == (0 if "" in named else machines - len(owned))


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = House(tmp_path)
    house.pool = FakePool("local", house.clock, max_nodes=5, costs=True)
    house.runner = house.new_runner()
    return house


def test_a_machine_that_nobody_knows_is_ended_after_its_grace(house: House) -> None:
    house.pool.make("i-stray", "launch-gone")
    house.run(int(GRACE_S) - 1)
    assert house.pool.alive == ["i-stray"]
    house.run(int(SWEEP_EVERY_S) + 2)
    assert house.pool.alive == []
    events = house.store.events().events
    assert [event.name for event in events if event.subject == "i-stray"] == ["stray.ended"]


def test_a_machine_that_trains_is_no_stray(house: House) -> None:
    house.script = lambda trial, allocation, ran: None
    house.submit()
    house.run(400)
    assert len(house.pool.alive) == 1
    assert not unexplained(audit(house.ws, {"local": house.pool}))


def test_what_machines_left_behind_is_removed(house: House) -> None:
    house.pool.left = [Leftover("volume", "vol-old", 1e4), Leftover("volume", "vol-new", 5.0)]
    house.run(2)
    assert [each.id for each in house.pool.left] == ["vol-new"]


def test_what_does_not_say_how_old_it_is_is_looked_at_twice(house: House) -> None:
    house.pool.left = [Leftover("network interface", "eni-1", None)]
    house.run(int(LEFTOVERS_EVERY_S) - 1)
    assert house.pool.left
    house.run(3)
    assert not house.pool.left


def test_a_pool_that_costs_nothing_is_not_swept(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.pool.make("i-someone", "")
    house.run(300)
    assert house.pool.alive == ["i-someone"]


def test_an_audit_of_a_pool_that_does_not_answer_is_not_clean(house: House) -> None:
    class Silent(FakePool):
        def machines(self) -> list[Machine]:
            raise Unreachable("EC2 did not answer", why="a cable")

    found = audit(house.ws, {"spot": Silent("spot", house.clock)})
    assert [each.verdict for each in unexplained(found)] == [Verdict.UNKNOWN]
    assert "a cable" in found[0].will


def test_what_is_silent_is_a_finding_in_time_and_hides_nothing_else(house: House) -> None:
    ended = threading.Event()

    class Silent(FakePool):
        def machines(self) -> list[Machine]:
            ended.wait()
            return []

    house.pool.make("i-stray", "launch-gone")
    house.clock.advance(GRACE_S)
    silent = {name: Silent(name, house.clock) for name in ("spot", "big")}
    found = audit(house.ws, {**silent, "local": house.pool}, within=0.2)
    ended.set()
    told = {(each.pool, each.id, each.verdict) for each in found}
    assert told == {
        ("spot", "spot", Verdict.UNKNOWN),
        ("big", "big", Verdict.UNKNOWN),
        ("local", "i-stray", Verdict.STRAY),
    }


@pytest.fixture(params=["refuses", "has no such table"])
def without_table(
    request: pytest.FixtureRequest, house: House, monkeypatch: pytest.MonkeyPatch
) -> Iterator[House]:
    """Its store is a table that nobody serves, or that nobody has made."""
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    with mock_dynamodb() as server:
        where = free_url() if request.param == "refuses" else server
        hasty = Retries(attempts=2, sleep=lambda _: None)
        with closing(DynamoStore(f"dynamodb://burst-lab?endpoint_url={where}", hasty)) as store:
            house.ws = replace(house.ws, store=store)
            yield house


def test_without_its_table_all_that_is_tagged_is_listed_and_the_table_too(
    without_table: House,
) -> None:
    house = without_table
    house.pool.make("i-1", LAUNCH)
    house.pool.left = [Leftover("volume", "vol-1", 1e4, LAUNCH)]
    table, machine, volume = unexplained(audit(house.ws, {"local": house.pool}))
    assert (table.kind, table.id) == ("store", house.ws.store.url)
    assert "table burst-lab" in table.will
    assert [(each.kind, each.id, each.owner) for each in (machine, volume)] == [
        ("machine", "i-1", ""),
        ("volume", "vol-1", ""),
    ]
    assert {each.verdict for each in (table, machine, volume)} == {Verdict.UNKNOWN}
    assert "could not be read" in machine.will
    assert house.pool.alive == ["i-1"]


def test_a_table_that_does_not_answer_is_told_where_nothing_is_up(without_table: House) -> None:
    (table,) = audit(without_table.ws, {"local": without_table.pool})
    assert (table.kind, table.verdict) == ("store", Verdict.UNKNOWN)


def test_a_table_that_falls_silent_between_two_looks_is_a_finding(
    without_table: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = without_table
    monkeypatch.setattr(house.ws.store, "newest_cursor", lambda: "")
    house.pool.make("i-1", LAUNCH)
    found = audit(house.ws, {"local": house.pool})
    assert [each.kind for each in unexplained(found)] == ["store", "machine"]


def test_a_node_that_is_kept_after_a_failure_says_until_when() -> None:
    facts = {"kept_until": 1_800_000_000.0}
    kept = node(handle={"instance": "i-1"}, cordoned=1.0, draining=None, facts=facts)
    will = judge_machine("spot", machine(), [kept]).will
    assert will == "it is kept until 2027-01-15 08:00 UTC to be looked at, and then leaves"
    leaving = kept.model_copy(update={"draining": 2.0})
    assert "kept" not in judge_machine("spot", machine(), [leaving]).will


def test_a_node_of_the_minimum_is_said_to_stay_and_the_next_to_leave(house: House) -> None:
    spot = AwsPool(instance_types=("c5.large",), max_nodes=3, min_nodes=1)
    pool = FakePool("spot", house.clock, costs=True)
    for number, id in enumerate(("node-1m3k9zq4w7a", "node-1m3k9zq4w7b")):
        own = {"id": id, "handle": {"instance": f"i-{number}"}, "ready": 3.0}
        house.store.commit(Put(node(**own, draining=None, terminating=None, facts={})))
        pool.make(f"i-{number}", LAUNCH)
    ws = replace(house.ws, cluster=ClusterConfig(pools={"spot": spot}))
    first, second = audit(ws, {"spot": pool})
    assert "one of the pool's min_nodes" in first.will
    assert second.will == "it leaves when it has been idle"


def test_machines_that_fail_again_and_again_stop_the_pool_with_their_console(house: House) -> None:
    house.submit()
    for _ in range(2000):
        house.settle()
        for id in house.pool.alive:
            house.pool.die(id)  # before its agent has said a word
        house.clock.advance(1.0)
    launches = [id for what, id in house.pool.calls if what == "launch"]
    assert len(launches) == FAILURES_TO_STOP
    supply = house.store.get(Supply, "local")
    assert supply.stopped is not None
    assert f"the console of {launches[-1]}" in supply.stopped.text
    names = [event.name for event in house.store.events().events]
    assert names.count("pool.stopped") == 1
    house.store.commit(Put(supply.model_copy(update={"stopped": None, "failures": 0})))
    house.run(60, until=lambda: bool(house.store.live(Node)))
