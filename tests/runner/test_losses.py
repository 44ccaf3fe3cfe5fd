from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.config.cluster import AwsPool, ClusterConfig, LocalPool, SlurmPool, StaticPool
from burst.core.errors import Unreachable
from burst.core.model import Allocation, Exit, ExitKind, Node, Share
from burst.core.states import AllocationState, Reason
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Put
from burst.core.testing.examples import NOW, allocation, node
from burst.runner.losses import (
    HOUR,
    PERSONAL_S,
    SERVED_S,
    TAKEN_S,
    of_a_gang,
    of_a_node,
    of_a_trial,
    seconds_between_losses,
    usual,
)

SPOT = AwsPool(instance_types=("p4d.24xlarge",), max_nodes=4)


def lived(hours: float, code: str = "", number: int = 0, **fields: Any) -> Node:
    """A node that was ready for so long; gone for a reason, or there still."""
    gone = {"gone": NOW, "gone_reason": Reason(code=code)} if code else {}
    id = f"node-1m3k9zq4w{number:02d}"
    return node(id=id, requested=NOW, ready=NOW - hours * HOUR, **{**gone, **fields})


def attempt(hours: float, kind: ExitKind | None, number: int = 1, **fields: Any) -> Allocation:
    over = {"exit": Exit(kind=kind), "ended": NOW} if kind else {}
    return allocation(
        id=f"alloc-1m3k9zq4w{number:02d}",
        attempt=number,
        started=NOW - hours * HOUR,
        **{**over, **fields},
    )


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (LocalPool(), PERSONAL_S),
        (StaticPool(slots_per_node=8), SERVED_S),
        (SlurmPool(partition="gpu", slots_per_node=4, max_nodes=2), SERVED_S),
        (SPOT, TAKEN_S),
        (SPOT.model_copy(update={"market": "on-demand"}), SERVED_S),
        (StaticPool(slots_per_node=8, loses_nodes=True), TAKEN_S),
        (SPOT.model_copy(update={"loses_nodes": False}), SERVED_S),
        (None, PERSONAL_S),
    ],
)
def test_a_pool_without_a_history_is_like_others_of_its_kind(pool: Any, expected: float) -> None:
    assert of_a_node([], usual(pool), NOW) == expected


def test_losses_over_node_hours_take_over_from_what_is_usual() -> None:
    calm = [lived(10, number=n) for n in range(9)]
    assert of_a_node(calm, 4 * HOUR, NOW) == 94 * HOUR
    wild = [lived(0.5, "dead", n) for n in range(20)]
    assert of_a_node(wild, 4 * HOUR, NOW) == pytest.approx(14 * HOUR / 21)


@pytest.mark.parametrize(
    ("code", "counts"), [("dead", 1), ("lease", 1), ("left", 0), ("failed", 0), ("silent", 0)]
)
def test_only_a_node_that_vanished_is_a_loss(code: str, counts: int) -> None:
    assert of_a_node([lived(4, code)], 4 * HOUR, NOW) == 8 * HOUR / (1 + counts)


def test_a_node_that_never_was_ready_says_nothing() -> None:
    assert of_a_node([node(requested=NOW, gone=NOW)], 4 * HOUR, NOW) == 4 * HOUR


def test_a_trial_that_crashes_has_its_own_rate() -> None:
    assert of_a_trial([attempt(9, ExitKind.DRAINED), attempt(2, None)], NOW) is None
    assert (
        of_a_trial([attempt(3, ExitKind.CRASHED), attempt(3, ExitKind.DRAINED)], NOW) == 6 * HOUR
    )
    assert of_a_trial([attempt(0.01, ExitKind.CRASHED)], NOW) == HOUR
    lost = attempt(1, None, state=AllocationState.LOST)
    assert of_a_trial([lost], NOW) is None  # the node's record has it


@given(st.floats(1.0, 1e9), st.integers(1, 1000), st.none() | st.floats(1.0, 1e9))
def test_a_gang_is_lost_sooner_than_any_of_its_parts(
    one: float, nodes: int, trial: float | None
) -> None:
    assert 0 < of_a_gang(one, nodes, trial) <= min(one / nodes, trial or one) * (1 + 1e-9)


def _store(*records: Any) -> MemoryStore:
    store = MemoryStore()
    store.commit(*(Put(record) for record in records))
    return store


def test_an_attempt_expects_what_its_pool_and_its_own_crashes_show() -> None:
    cluster = ClusterConfig(pools={"local": LocalPool(), "spot": SPOT})
    now_on = attempt(0, None, 3, pool="spot", shares=_shares(2))
    store = _store(
        lived(4, "dead", 1, pool="spot"),
        lived(400, number=2, pool="local"),
        attempt(8, ExitKind.CRASHED, 2, pool="spot"),
        now_on,
    )
    # 8 hours and 2 losses are 4 hours a node, 2 of two nodes; a crash every 8.
    expected = 1 / (1 / (2 * HOUR) + 1 / (8 * HOUR))
    found = seconds_between_losses(store, cluster, now_on, NOW)
    assert found == pytest.approx(expected)


def _shares(nodes: int) -> tuple[Share, ...]:
    return tuple(Share(node=f"node-{number}", slots=(0,)) for number in range(nodes))


def test_a_store_that_does_not_answer_costs_no_attempt() -> None:
    class Away(MemoryStore):
        def children(self, *args: Any, **kwargs: Any) -> Any:
            raise Unreachable("no")

    found = seconds_between_losses(Away(), ClusterConfig(), attempt(0, None), NOW)
    assert found == PERSONAL_S


def test_the_file_says_which_pools_lose_nodes(tmp_path: Path) -> None:
    from burst.core.config import load_cluster
    from burst.core.config.cluster import loses_nodes

    path = tmp_path / "burst.yaml"
    path.write_text(
        "pools:\n  desk: {kind: local}\n"
        "  cheap: {kind: static, slots_per_node: 8, loses_nodes: true}\n"
    )
    pools = load_cluster(path).pools
    assert {name: loses_nodes(pool) for name, pool in pools.items()} == {
        "desk": False,
        "cheap": True,
    }
