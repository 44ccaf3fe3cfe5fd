"""Which node a machine is, whoever else gives nodes away at the same moment."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from burst.core.clock import ManualClock
from burst.core.errors import Conflict, Refused, Unreachable
from burst.core.ids import new_id
from burst.core.model import Node
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Put, Write
from burst.core.workspace import Workspace
from burst.runner.node import main
from burst.runner.node.identity import (
    Free,
    Mine,
    Over,
    Unknown,
    choose,
    claim,
    given,
    nodes_of,
    writes_of,
)

CLOCK = ManualClock()
LAUNCH = new_id("launch", CLOCK)


def _nodes(count: int, launch: str = LAUNCH, **changes: Any) -> list[Node]:
    made: dict[str, Node] = {}
    while len(made) < count:
        id = new_id("node", CLOCK)
        made[id] = Node(
            id=id, pool="spot", launch=launch, requested=1.0, expected_slots=1, **changes
        )
    return [made[id] for id in sorted(made)]


def _store(*nodes: Node) -> MemoryStore:
    store = MemoryStore()
    store.commit(*map(Put, nodes))
    return store


class Interleaved(MemoryStore):
    """Lets others act before each read of nodes and each commit, as a script says."""

    def __init__(self, script: Sequence[int]) -> None:
        super().__init__()
        self._script = list(script)
        self.instances: list[str] = []

    def _let_others(self) -> None:
        if not self._script:
            return
        runner, who = divmod(self._script.pop(0), 5)
        if who < len(self.instances):
            (_give if runner else _claim)(self, self.instances[who])

    def children(self, *args: Any, **options: Any) -> Any:
        self._let_others()
        found = super().children(*args, **options)
        return found

    def commit(self, *writes: Write) -> None:
        self._let_others()
        super().commit(*writes)


def _claim(store: MemoryStore, instance: str) -> Mine | Over | Unknown:
    return claim(store, LAUNCH, "spot", instance, CLOCK)


def _give(store: MemoryStore, instance: str) -> None:
    """As a runner does that chooses otherwise than machines do: it begins with the last node."""
    while True:
        nodes = nodes_of(store, LAUNCH, "spot")
        free = [node for node in nodes if not node.handle]
        if not free or any(node.handle.get("instance") == instance for node in nodes):
            return
        with contextlib.suppress(Conflict):
            store.commit(*writes_of(given(free[-1], instance, 1.0), free[:-1], instance, 1.0))


@drawn(st.integers(1, 4), st.integers(1, 5), st.lists(st.integers(0, 9), max_size=40))
@settings(max_examples=300)
def test_no_machine_has_two_nodes_and_no_node_two_machines_however_they_interleave(
    nodes: int, machines: int, script: list[int]
) -> None:
    store = Interleaved(script)
    MemoryStore.commit(store, *map(Put, _nodes(nodes)))
    store.instances = [f"i-{number}" for number in range(machines)]
    found = [_claim(store, instance) for instance in store.instances]
    named = [node.handle["instance"] for node in nodes_of(store, LAUNCH, "spot") if node.handle]
    assert len(named) == len(set(named)) == min(nodes, machines)
    have = [each.node.id for each in found if isinstance(each, Mine)]
    assert len(have) == len(set(have)) == min(nodes, machines)


def test_a_claim_fails_where_another_free_node_of_the_launch_was_given_away() -> None:
    """By whoever gave the same machine that node, and wrote nothing else."""
    first, second = _nodes(2)
    store = _store(first, second)
    choice = choose(nodes_of(store, LAUNCH, "spot"), "i-1")
    assert isinstance(choice, Free)
    other = choice.others[0].model_copy(update={"handle": {"instance": "i-1"}})
    store.commit(Put(other))
    assert _claim(store, "i-1") == Mine(store.get(Node, other.id))
    assert store.get(Node, choice.node.id).handle == {}


def test_claiming_again_changes_nothing() -> None:
    store = _store(*_nodes(2))
    first = _claim(store, "i-1")
    assert isinstance(first, Mine)
    assert _claim(store, "i-1") == first
    assert len(store.events().events) == 1


def test_the_node_that_the_runner_gave_is_taken_though_others_are_free() -> None:
    free, named = _nodes(2)
    store = _store(free, named.model_copy(update={"handle": {"instance": "i-1", "zone": "a"}}))
    found = _claim(store, "i-1")
    assert isinstance(found, Mine)
    assert found.node.id == named.id


def test_of_two_nodes_with_one_machine_the_one_that_is_registered_counts() -> None:
    first, second = _nodes(2, handle={"instance": "i-1"})
    second = second.model_copy(update={"registered": 2.0})
    assert choose([first, second], "i-1") == Mine(second)


@pytest.mark.parametrize("date", ["gone", "terminating"])
def test_a_machine_whose_node_was_given_up_takes_no_other(date: str) -> None:
    mine, _ = nodes = _nodes(2)
    mine = mine.model_copy(update={"handle": {"instance": "i-1"}, date: 3.0})
    assert choose([mine, nodes[1]], "i-1") == Over(mine)


@pytest.mark.parametrize("date", ["gone", "terminating"])
def test_a_node_that_was_given_up_is_not_free(date: str) -> None:
    assert choose([_nodes(1)[0].model_copy(update={date: 3.0})], "i-1") == Unknown()


def test_only_nodes_of_the_machines_own_request_count() -> None:
    store = _store(*_nodes(2, launch=new_id("launch", CLOCK)))
    assert _claim(store, "i-1") == Unknown()


def test_nodes_are_never_read_from_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    store = _store(*_nodes(3))
    monkeypatch.setattr(store, "live", lambda *_: [])
    assert isinstance(_claim(store, "i-1"), Mine)


def test_nodes_are_found_beyond_any_history_and_history_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = [
        node.model_copy(update={"id": new_id("node", ManualClock(1_750_000_000 + number))})
        for number, node in enumerate(_nodes(300))
    ]
    store = _store(*_nodes(2))
    for node in old:
        store.commit(Put(node))
    read: list[str] = []
    inner = store.children

    def children(*args: Any, **options: Any) -> Any:
        found = inner(*args, **options)
        read.extend(node.id for node in found)
        return found

    monkeypatch.setattr(store, "children", children)
    assert isinstance(_claim(store, "i-1"), Mine)
    assert len(read) == 2


def test_nodes_of_a_request_with_another_kind_of_name_are_found_by_the_pool() -> None:
    store = _store(*_nodes(2, launch="mine"))
    found = claim(store, "mine", "spot", "i-1", CLOCK)
    assert isinstance(found, Mine)


class _World:
    """A workspace of which only the store is used, and a clock to wait by."""

    def __init__(self, store: MemoryStore, tmp_path: Any) -> None:
        self.ws = Workspace(tmp_path, None, store, None)  # type: ignore[arg-type]
        self.clock = ManualClock()

    def find(self, patience: float = 900.0) -> Node:
        return main.find_node(self.ws, LAUNCH, "spot", "i-1", self.clock, patience)


def test_the_runner_is_given_a_moment_to_name_the_node(tmp_path: Any) -> None:
    world = _World(_store(*_nodes(1)), tmp_path)
    began = world.clock.now()
    world.find()
    assert main.SETTLE_S <= world.clock.now() - began < main.SETTLE_S + 5


def test_an_intent_that_appears_late_is_found(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = _World(_store(), tmp_path)
    inner = world.clock.sleep

    def sleep(seconds: float) -> None:
        inner(seconds)
        if world.clock.now() > 1_800_000_030 and not nodes_of(world.ws.store, LAUNCH, "spot"):
            world.ws.store.commit(*map(Put, _nodes(1)))

    monkeypatch.setattr(world.clock, "sleep", sleep)
    assert world.find().handle == {"instance": "i-1"}


def test_a_machine_that_no_node_needs_leaves_after_a_while(tmp_path: Any) -> None:
    world = _World(_store(*_nodes(1, handle={"instance": "i-2"})), tmp_path)
    began = world.clock.now()
    with pytest.raises(Refused, match="one too many"):
        world.find()
    assert main.NODE_PATIENCE_S <= world.clock.now() - began < main.NODE_PATIENCE_S + 5


def test_a_machine_whose_node_was_given_up_leaves_at_once(tmp_path: Any) -> None:
    world = _World(_store(*_nodes(1, handle={"instance": "i-1"}, gone=1.0)), tmp_path)
    with pytest.raises(Refused, match="one too many"):
        world.find()
    assert world.clock.now() == ManualClock().now()


def test_a_store_that_is_away_is_waited_for_and_not_for_ever(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = _World(_store(*_nodes(1)), tmp_path)
    back = world.clock.now() + 300
    inner = world.ws.store.children

    def children(*args: Any, **options: Any) -> Any:
        if world.clock.now() < back:
            raise Unreachable("the store is away")
        return inner(*args, **options)

    monkeypatch.setattr(world.ws.store, "children", children)
    assert world.find().handle == {"instance": "i-1"}
    back = world.clock.now() + 10_000
    with pytest.raises(Unreachable):
        world.find(patience=900)


def test_a_claim_that_is_beaten_every_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    store = _store(*_nodes(1))

    def commit(*_: Write) -> None:
        raise Conflict("beaten")

    monkeypatch.setattr(store, "commit", commit)
    with pytest.raises(Conflict, match="others were faster"):
        _claim(store, "i-1")
