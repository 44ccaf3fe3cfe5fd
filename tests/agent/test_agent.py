"""The agent with real processes: from an assigned allocation to its exit."""

from __future__ import annotations

from collections.abc import Callable

from burst.core.logs import read_logs
from burst.core.model import ExitKind, Node
from tests.agent.conftest import Cluster, Running


def test_an_assigned_allocation_runs_and_is_released(
    cluster: Cluster, start: Callable[..., Running]
) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, [("say", "hello"), ("outcome", "completed")])
    start(node)
    released = cluster.released(allocation.id)
    assert released.exit is not None
    assert released.exit.kind is ExitKind.COMPLETED
    assert released.started is not None
    assert [line.text for line in read_logs(cluster.ws.blobs, released.trial)] == ["hello"]
    assert cluster.ws.store.get(Node, node.id).ready is not None
