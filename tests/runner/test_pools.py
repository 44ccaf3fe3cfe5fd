"""The pools: the contract for each that launches, and what is the local pool's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from burst.core.clock import ManualClock, SystemClock
from burst.core.config.cluster import ClusterConfig
from burst.core.config.cluster import LocalPool as LocalPoolConfig
from burst.core.config.cluster import StaticPool as StaticPoolConfig
from burst.core.errors import Refused
from burst.core.ids import new_id
from burst.core.launch import ALLOCATION_VARIABLE
from burst.core.model import Node, Supply
from burst.core.store.port import Put
from burst.core.workspace import Workspace, open_workspace
from burst.runner.pools import open_pools
from burst.runner.pools.fake import FakePool
from burst.runner.pools.local import NODE_VARIABLE, SLOTS_VARIABLE, LocalPool
from burst.runner.pools.open import limits_of
from burst.runner.pools.port import Launched, Liveness, Pool
from burst.runner.pools.static import StaticPool
from burst.runner.testing.pool_contract import PoolContract, launched

CLOCK = SystemClock()


def a_node(pool: str = "local", **fields: Any) -> Node:
    made = Node(id=new_id("node", CLOCK), pool=pool, expected_slots=1, requested=CLOCK.now())
    return made.model_copy(update=fields)


def ask(pool: Pool) -> Any:
    return pool.ask(1, whole=False, beside=None, supply=Supply(id=pool.name), now=0.0)


class TestFakePool(PoolContract):
    @pytest.fixture
    def pools(self) -> Callable[[], Pool]:
        pool = FakePool("local", ManualClock(), max_nodes=3)
        return lambda: pool

    @pytest.fixture
    def intend(self) -> Callable[[], Node]:
        return a_node


class TestLocalPool(PoolContract):
    """With agents that are real processes."""

    @pytest.fixture
    def ws(self, tmp_path: Path) -> Workspace:
        return open_workspace(cwd=tmp_path)

    @pytest.fixture
    def pools(self, ws: Workspace) -> Iterator[Callable[[], Pool]]:
        yield lambda: open_pools(ws)["local"]
        for node in ws.store.live(Node):
            open_pools(ws)["local"].terminate(node)

    @pytest.fixture
    def intend(self, ws: Workspace) -> Callable[[], Node]:
        def make() -> Node:
            node = a_node()
            ws.store.commit(Put(node))
            return node

        return make

    def test_a_machine_has_one_agent_a_pool(
        self, pools: Callable[[], Pool], intend: Callable[[], Node]
    ) -> None:
        first = launched(pools(), intend())
        second = pools().launch([intend()])
        assert not second.nodes
        (refusal,) = second.refusals.values()
        assert first.id in refusal.text
        pools().terminate(first)

    def test_a_launch_whose_answer_was_lost_is_adopted(
        self, ws: Workspace, pools: Callable[[], Pool], intend: Callable[[], Node]
    ) -> None:
        intent = intend()
        first = launched(pools(), intent)
        (ws.home / "nodes" / intent.id / "agent.json").unlink()
        again = launched(pools(), intent)
        assert again.handle["pid"] == first.handle["pid"]
        pools().terminate(again)


def sleeper(**environ: str) -> subprocess.Popen[bytes]:
    """A process that runs by now: before that its environment is its parent's."""
    program = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    process = subprocess.Popen(
        program,
        env={**os.environ, **environ},
        start_new_session=True,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
    return process


def handle_of(process: subprocess.Popen[bytes], **fields: Any) -> dict[str, Any]:
    started = psutil.Process(process.pid).create_time()
    host = os.uname().nodename
    made = {"host": host, "pid": process.pid, "started": started, "group": process.pid}
    return {**made, **fields}


@pytest.fixture
def local(tmp_path: Path) -> LocalPool:
    return LocalPool(
        "local",
        tmp_path,
        LocalPoolConfig(),
        environ={**os.environ, SLOTS_VARIABLE: "3"},
        allocations_of=lambda node: ["alloc-1m3k9zq4w7c"],
    )


def test_a_process_that_got_the_same_id_later_is_not_the_agent(local: LocalPool) -> None:
    process = sleeper()
    try:
        node = a_node(handle=handle_of(process))
        assert local.observe([node])[node.id] is Liveness.ALIVE
        other = a_node(handle=handle_of(process, started=1.0))
        assert local.observe([other])[other.id] is Liveness.DEAD
        local.terminate(other)
        assert process.poll() is None, "nothing that is not the agent's is ended"
    finally:
        process.kill()
        process.wait()


def test_an_agent_whose_start_time_shifted_with_the_date_is_still_alive(local: LocalPool) -> None:
    node = a_node()
    process = sleeper(**{NODE_VARIABLE: node.id})
    try:
        node = node.model_copy(update={"handle": handle_of(process, started=1.0)})
        assert local.observe([node])[node.id] is Liveness.ALIVE
    finally:
        process.kill()
        process.wait()


def test_what_a_dead_agent_has_left_is_ended(local: LocalPool) -> None:
    agent = sleeper()
    node = a_node(handle=handle_of(agent))
    agent.kill()
    agent.wait()
    left = [sleeper(**{ALLOCATION_VARIABLE: "alloc-1m3k9zq4w7c"}), sleeper(BURST_NODE=node.id)]
    other = sleeper(**{ALLOCATION_VARIABLE: "alloc-1m3k9zq4w7d"})
    try:
        assert local.observe([node])[node.id] is Liveness.DEAD
        local.terminate(node)
        assert not any(psutil.pid_exists(process.pid) for process in left)
        assert other.poll() is None
    finally:
        for process in (*left, other):
            process.kill()
            process.wait()


def test_what_runs_on_another_machine_is_unknown_and_left_alone(local: LocalPool) -> None:
    process = sleeper()
    try:
        node = a_node(handle=handle_of(process, host="elsewhere"))
        assert local.observe([node])[node.id] is Liveness.UNKNOWN
        local.terminate(node)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_the_slots_are_as_said_in_the_file_or_else_in_the_environment(tmp_path: Path) -> None:
    def slots(config: LocalPoolConfig, said: str) -> int:
        environ = {SLOTS_VARIABLE: said}
        return LocalPool("local", tmp_path, config, environ=environ).limits.slots_per_node

    assert slots(LocalPoolConfig(slots=5), "3") == 5
    assert slots(LocalPoolConfig(), "3") == 3
    assert slots(LocalPoolConfig(), "many") >= 1


def test_a_static_pool_starts_nothing_and_knows_nothing() -> None:
    pool = StaticPool("onprem", StaticPoolConfig(slots_per_node=8, max_nodes=2))
    node = a_node("onprem")
    with pytest.raises(Refused, match="onprem"):
        ask(pool)
    assert pool.launch([node]) == Launched()
    assert pool.observe([node]) == {node.id: Liveness.UNKNOWN}
    pool.terminate(node)


def test_pools_of_later_kinds_are_opened_and_refuse_when_used(tmp_path: Path) -> None:
    ws = open_workspace(cwd=tmp_path)
    cluster = ClusterConfig.model_validate(
        {
            "pools": {
                "hpc": {"kind": "slurm", "partition": "g", "slots_per_node": 4, "max_nodes": 2},
                "local": {"kind": "local", "slots": 2},
            }
        }
    )
    pools = open_pools(Workspace(ws.home, cluster, ws.store, ws.blobs))
    assert list(limits_of(cluster.pools, pools)) == ["local"]
    with pytest.raises(Refused, match="kind slurm") as caught:
        ask(pools["hpc"])
    assert "not acted on yet" in caught.value.why
