"""Machines and runners that give nodes away at the same moment, on a real table."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from burst.core.clock import SystemClock
from burst.core.errors import Conflict
from burst.core.ids import new_id
from burst.core.model import Node
from burst.core.store.dynamodb.store import DynamoStore
from burst.core.store.port import Put
from burst.core.testing.ministack import ENVIRON, ministack
from burst.runner.node.identity import Mine, Over, Unknown, claim, nodes_of
from burst.runner.pools.aws.fleet import Instance, pair

NODES, MACHINES, RUNNERS = 5, 7, 2


def _adopt(store: DynamoStore, launch: str, machines: list[Instance]) -> None:
    """The runner's part: it pairs all that it was told of, in one commit."""
    while True:
        nodes = nodes_of(store, launch, "spot")
        paired = {node.id: node for node in pair(nodes, machines, 1.0)}
        writes = [Put(paired.get(node.id, node)) for node in nodes if not node.handle]
        try:
            store.commit(*writes)
        except Conflict:
            continue
        return


def test_of_many_machines_and_runners_at_once_each_node_has_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    clock = SystemClock()
    launch = new_id("launch", clock)
    nodes = {
        node.id: node
        for node in (
            Node(
                id=new_id("node", clock),
                pool="spot",
                launch=launch,
                requested=1.0,
                expected_slots=1,
            )
            for _ in range(NODES)
        )
    }
    machines = [
        Instance(f"i-{number}", "c5.large", "us-east-1a", "s", "spot")
        for number in range(MACHINES)
    ]
    found: dict[str, Mine | Over | Unknown] = {}
    begin = threading.Barrier(MACHINES + RUNNERS)
    with ministack(tmp_path / "log") as url, closing(_store(url)) as store:
        store.table.create()
        store.commit(*map(Put, nodes.values()))

        def machine(instance: str) -> None:
            with closing(_store(url)) as own:
                begin.wait()
                found[instance] = claim(own, launch, "spot", instance, clock)

        def runner() -> None:
            with closing(_store(url)) as own:
                begin.wait()
                _adopt(own, launch, machines)

        threads = [threading.Thread(target=machine, args=(each.id,)) for each in machines]
        threads += [threading.Thread(target=runner) for _ in range(RUNNERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        names = [node.handle["instance"] for node in nodes_of(store, launch, "spot")]
        assert len(set(names)) == len(nodes)
        for instance in (each.id for each in machines):
            first, again = found[instance], claim(store, launch, "spot", instance, clock)
            assert isinstance(again, Mine) == (instance in names)
            if isinstance(first, Mine):
                assert isinstance(again, Mine)
                assert first.node.id == again.node.id


def _store(url: str) -> DynamoStore:
    return DynamoStore(f"dynamodb://claims?endpoint_url={url}")
