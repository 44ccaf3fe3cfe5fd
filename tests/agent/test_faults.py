"""A store or blobs that fail at every call in turn: the attempt still ends, and ends right."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from burst.core.errors import Unreachable
from burst.core.model import Allocation, Exit, ExitKind, Lease, Node
from burst.core.states import AllocationState
from burst.core.store.port import Put
from tests.agent.conftest import Cluster, Do, Running, eventually

Start = Callable[..., Running]
QUICK: Do = [("say", "x"), ("outcome", "completed")]


class Faulty:
    """Passes every call on; fails those it is told to, counted from 0, before or after."""

    def __init__(self, real: Any, names: tuple[str, ...]) -> None:
        self._real, self._names = real, names
        self._lock = threading.Lock()
        self.calls = 0
        self.fail: Callable[[int], str] = lambda call: ""

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name not in self._names:
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                fault = self.fail(self.calls)
                self.calls += 1
            if fault == "before":
                raise Unreachable("no answer")
            found = real(*args, **kwargs)
            if fault == "after":
                raise Unreachable("the answer was lost")
            return found

        return call


def _ready(cluster: Cluster, node: Node) -> None:
    eventually(lambda: cluster.ws.store.get(Node, node.id).idle_since)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", range(6))
def test_one_commit_that_fails_costs_no_attempt(
    cluster: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch, call: int, when: str
) -> None:
    monkeypatch.setattr("burst.runner.agent.attempts.attempt._RETRY_S", 0.05)
    monkeypatch.setattr("burst.runner.agent.attempts.releasing._RETRY_S", 0.05)
    store = Faulty(cluster.ws.store, ("commit",))
    node = cluster.node()
    start(node, ws=replace(cluster.ws, store=store))
    _ready(cluster, node)
    first = store.calls + call
    store.fail = lambda number: when if number == first else ""
    allocation = cluster.assign(node, QUICK)
    assert cluster.released(allocation.id).exit == Exit(kind=ExitKind.COMPLETED)


def test_ranks_train_on_while_the_store_is_away_and_are_released_when_it_is_back(
    cluster: Cluster, start: Start
) -> None:
    store = Faulty(cluster.ws.store, ("commit", "get", "find", "live"))
    node = cluster.node()
    allocation = cluster.assign(node, [("say", "x"), ("sleep", 1.0), ("outcome", "completed")])
    start(node, ws=replace(cluster.ws, store=store))
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    away = threading.Event()
    away.set()
    store.fail = lambda call: "before" if away.is_set() else ""
    folder = cluster.ws.home / "nodes" / node.id / allocation.id
    eventually(lambda: (folder / "outcome.json").exists())
    assert cluster.allocation(allocation.id).state is AllocationState.RUNNING
    away.clear()
    assert cluster.released(allocation.id).exit == Exit(kind=ExitKind.COMPLETED)


def test_an_agent_whose_store_stays_away_ends_its_ranks_with_its_lease(
    cluster: Cluster, start: Start
) -> None:
    store = Faulty(cluster.ws.store, ("commit", "get", "find", "live"))
    node = cluster.node()
    allocation = cluster.assign(node, [("deaf", None), ("sleep", 600)])
    running = start(node, ws=replace(cluster.ws, store=store), lease=1.5)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    store.fail = lambda call: "before"
    reason = running.join()
    assert reason is not None
    assert reason.code == "lease"


def test_a_revoked_lease_ends_the_ranks_and_the_agent(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, [("deaf", None), ("sleep", 600)])
    running = start(node, lease=1.5)
    cluster.reaches(allocation.id, AllocationState.RUNNING)

    def revoke() -> bool:
        lease = cluster.ws.store.get(Lease, node.id)
        try:
            cluster.ws.store.commit(Put(lease.model_copy(update={"revoked": True})))
        except Exception:
            return False
        return True

    eventually(revoke)
    reason = running.join()
    assert reason is not None
    assert reason.text == "the lease was revoked"


def test_blobs_that_are_away_do_not_keep_an_allocation_and_get_the_logs_later(
    cluster: Cluster, start: Start
) -> None:
    from burst.core.logs import read_logs

    blobs = Faulty(cluster.ws.blobs, ("put",))
    node = cluster.node()
    start(node, ws=replace(cluster.ws, blobs=blobs), flush_patience=0.1)
    _ready(cluster, node)
    away = threading.Event()
    away.set()
    blobs.fail = lambda call: "before" if away.is_set() else ""
    allocation = cluster.assign(node, QUICK)
    assert cluster.released(allocation.id).exit == Exit(kind=ExitKind.COMPLETED)
    assert list(read_logs(cluster.ws.blobs, allocation.trial)) == []
    away.clear()
    eventually(lambda: list(read_logs(cluster.ws.blobs, allocation.trial)))


def test_a_machine_found_unfit_during_an_attempt_gives_it_back_and_leaves(
    cluster: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.node()
    running = start(node)
    _ready(cluster, node)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("burst.runner.agent.preparing.preparation.LaunchSpec.write", full)
    monkeypatch.setattr(
        "burst.runner.agent.attempts.attempt.check_machine", lambda *_: ["disk is full"]
    )
    allocation: Allocation = cluster.assign(node, QUICK)
    exit = cluster.released(allocation.id).exit
    assert exit is not None
    assert exit.kind is ExitKind.INFRASTRUCTURE
    reason = running.join()
    assert reason is not None
    assert reason.code == "unfit"
    assert "disk is full" in cluster.ws.store.get(Node, node.id).facts["problems"]
