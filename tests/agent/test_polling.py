"""What an agent asks of a store where every request is paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from burst.core.model import Allocation, DrainCause, ExitKind, Node
from burst.core.states import AllocationState
from burst.core.store import update
from burst.core.store.port import Store
from tests.agent.conftest import CLOCK, Cluster, Running, eventually

Start = Callable[..., Running]
FAST = {"poll_remote": 0.02, "node_every": 0.02}


class Remote:
    """A store that looks as one that is elsewhere, and counts what it is asked."""

    url = "dynamodb://burst"

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        def call(*args: Any, **options: Any) -> Any:
            kind = getattr(args[0], "kind", "") if args else ""
            self.asked[f"{name} {kind}".strip()] += 1
            return found(*args, **options)

        return call


def begin(cluster: Cluster, start: Start, node: Node) -> Remote:
    store = Remote(cluster.ws.store)
    start(node, ws=replace(cluster.ws, store=store), **FAST)
    eventually(lambda: cluster.ws.store.get(Node, node.id).idle_since is not None)
    return store


def looks(store: Remote, more: int) -> None:
    """Wait until the agent has looked so many times more."""
    goal = store.asked["find node"] + more
    eventually(lambda: store.asked["find node"] >= goal)


def touch(cluster: Cluster, node: Node) -> None:
    """As the commit does that gives a node an allocation."""
    update(
        cluster.ws.store,
        Node,
        node.id,
        lambda found: found.model_copy(update={"idle_since": CLOCK.now()}),
    )


def test_an_agent_without_news_does_not_list_what_its_pool_runs(
    cluster: Cluster, start: Start
) -> None:
    node = cluster.node()
    store = begin(cluster, start, node)
    looks(store, 3)
    before = store.asked["live allocation"]
    looks(store, 20)
    assert store.asked["live allocation"] - before < 5  # one is due every 15 s
    touch(cluster, node)
    eventually(lambda: store.asked["live allocation"] > before)


def test_it_hears_of_an_allocation_by_its_node_and_of_a_drain_by_the_allocation(
    cluster: Cluster, start: Start
) -> None:
    node = cluster.node()
    store = begin(cluster, start, node)
    looks(store, 3)
    allocation = cluster.assign(node, [("until_asked", 60)])
    touch(cluster, node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    looks(store, 3)
    before = store.asked["live allocation"]
    cluster.drain(allocation.id, DrainCause.PAUSE)
    exit = cluster.released(allocation.id).exit
    assert exit is not None
    assert exit.kind is ExitKind.DRAINED
    assert store.asked["find_many allocation"] > 0
    looks(store, 3)
    # Having nothing to do again is written into the node, after which it lists once.
    assert store.asked["live allocation"] - before <= 3


def test_an_allocation_that_was_lost_is_heard_of_too(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    store = begin(cluster, start, node)
    allocation = cluster.assign(node, [("until_asked", 60)])
    touch(cluster, node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    cluster.lose(allocation.id)
    eventually(lambda: cluster.ws.store.get(Node, node.id).idle_since is not None)
    looks(store, 3)
    assert cluster.ws.store.get(Allocation, allocation.id).state is AllocationState.LOST
