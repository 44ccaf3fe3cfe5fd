"""What every pool must keep. An adapter's tests inherit this and provide the fixtures.

class TestFakePool(PoolContract):
    @pytest.fixture
    def pools(self): ...
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from burst.core.model import Node
from burst.runner.pools.port import Liveness, Pool

PATIENCE_S = 20.0


class PoolContract:
    @pytest.fixture
    def pools(self) -> Callable[[], Pool]:
        """Makes a pool object; each is another runner's view of the same machines."""
        raise NotImplementedError("the adapter's tests provide the pools")

    @pytest.fixture
    def intend(self) -> Callable[[], Node]:
        """Makes a node whose intent is in the store."""
        raise NotImplementedError("the adapter's tests provide the nodes")

    def test_a_pool_can_give_something(self, pools: Callable[[], Pool]) -> None:
        limits = pools().limits
        assert limits.slots_per_node >= 1
        assert limits.max_nodes >= 1

    def test_a_launched_machine_is_alive_until_it_is_terminated(
        self, pools: Callable[[], Pool], intend: Callable[[], Node]
    ) -> None:
        pool = pools()
        node = launched(pool, intend())
        assert node.launched is not None
        assert node.handle
        assert pool.observe([node]) == {node.id: Liveness.ALIVE}
        pool.terminate(node)
        eventually_dead(pool, node)
        pool.terminate(node)
        assert pool.observe([node]) == {node.id: Liveness.DEAD}

    def test_launching_again_starts_nothing_more(
        self, pools: Callable[[], Pool], intend: Callable[[], Node]
    ) -> None:
        pool, intent = pools(), intend()
        first = launched(pool, intent)
        assert launched(pool, intent).handle == first.handle
        assert launched(pools(), intent).handle == first.handle
        pool.terminate(first)
        eventually_dead(pool, first)

    def test_launching_from_many_runners_at_once_starts_one_machine(
        self, pools: Callable[[], Pool], intend: Callable[[], Node]
    ) -> None:
        intent = intend()
        with ThreadPoolExecutor(3) as threads:
            both = list(threads.map(lambda pool: launched(pool, intent), [pools(), pools()]))
        assert both[0].handle == both[1].handle
        pool = pools()
        pool.terminate(both[0])
        eventually_dead(pool, both[0])

    def test_a_machine_that_has_ended_is_not_started_again_by_its_old_intent(
        self, pools: Callable[[], Pool], intend: Callable[[], Node]
    ) -> None:
        pool, intent = pools(), intend()
        node = launched(pool, intent)
        pool.terminate(node)
        eventually_dead(pool, node)
        again = launched(pools(), intent)
        assert pool.observe([again]) == {node.id: Liveness.DEAD}

    def test_another_runner_sees_the_same_machines(
        self, pools: Callable[[], Pool], intend: Callable[[], Node]
    ) -> None:
        node = launched(pools(), intend())
        other = pools()
        assert other.observe([node]) == {node.id: Liveness.ALIVE}
        other.terminate(node)
        eventually_dead(pools(), node)

    def test_what_was_never_launched_is_not_alive_and_may_be_terminated(
        self, pools: Callable[[], Pool], intend: Callable[[], Node]
    ) -> None:
        pool, intent = pools(), intend()
        assert pool.observe([intent])[intent.id] is not Liveness.ALIVE
        pool.terminate(intent)
        assert pool.observe([]) == {}


def launched(pool: Pool, intent: Node) -> Node:
    """The node once the pool was asked for it, which has a machine, or had one."""
    (node,) = pool.launch([intent]).nodes
    return node


def eventually_dead(pool: Pool, node: Node) -> None:
    until = time.monotonic() + PATIENCE_S
    while pool.observe([node])[node.id] is not Liveness.DEAD:
        assert time.monotonic() < until, f"{node.id} does not end"
        time.sleep(0.02)
