"""Agents as processes of their own: signalled, killed, started twice, started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from burst.core.errors import ExitCode
from burst.core.logs import read_logs
from burst.core.model import DrainCause, Exit, ExitKind, Lease, Node
from burst.core.states import AllocationState
from tests.agent.conftest import STAND_IN, Cluster, Do, eventually

PROGRAM = f"""
import sys
from burst.core.errors import BurstError
from burst.core.workspace import open_workspace
from burst.runner.agent.serving.main import serve
from burst.runner.agent.site import Settings
settings = Settings(launcher=({STAND_IN!r},), poll=0.02, node_every=0.05, ship_every=0.05)
try:
    print(serve(open_workspace(), sys.argv[1], "local", settings).code)
except BurstError as error:
    print(error)
    sys.exit(int(error.exit_code))
"""
Spawn = Callable[[Node], "subprocess.Popen[str]"]


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """Starts agents as processes; none is left at the end."""
    begun: list[subprocess.Popen[str]] = []

    def begin(node: Node) -> subprocess.Popen[str]:
        agent = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, node.id],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=tmp_path,
        )
        begun.append(agent)
        return agent

    yield begin
    for agent in begun:
        agent.kill()
        agent.communicate()


def _train(path: Path) -> Do:
    """Ranks with a grandchild that left their session and ignores SIGTERM."""
    return [("grandchild", f"{path}"), ("say", "training"), ("until_asked", 60)]


def _family(allocation: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("BURST_ALLOCATION") == allocation:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def test_sigterm_drains_what_runs_and_leaves(
    cluster: Cluster, spawn: Spawn, tmp_path: Path
) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, _train(tmp_path / "pid"))
    agent = spawn(node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    agent.send_signal(signal.SIGTERM)
    out, _ = agent.communicate(timeout=60)
    assert out == "signal\n"
    released = cluster.allocation(allocation.id)
    assert released.exit == Exit(kind=ExitKind.DRAINED)
    assert released.drain is not None
    assert released.drain.cause is DrainCause.NODE
    assert cluster.ws.store.get(Node, node.id).gone is not None
    assert cluster.ws.store.find(Lease, node.id) is None
    assert _family(allocation.id) == []


def test_a_second_signal_does_not_wait_for_the_ranks(cluster: Cluster, spawn: Spawn) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, [("say", "x"), ("sleep", 600)])
    agent = spawn(node)
    eventually(lambda: list(read_logs(cluster.ws.blobs, allocation.trial)))
    agent.send_signal(signal.SIGINT)
    cluster.reaches(allocation.id, AllocationState.DRAINING)
    agent.send_signal(signal.SIGINT)
    agent.communicate(timeout=60)
    exit = cluster.allocation(allocation.id).exit
    assert exit == Exit(kind=ExitKind.DRAINED, durable=False)


def test_kill_9_of_the_agent_ends_ranks_and_grandchildren(
    cluster: Cluster, spawn: Spawn, tmp_path: Path
) -> None:
    node = cluster.node()
    path = tmp_path / "pid"
    allocation = cluster.assign(node, _train(path))
    agent = spawn(node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    eventually(lambda: path.exists() and path.read_text())
    assert len(_family(allocation.id)) >= 3
    agent.kill()
    agent.wait()
    eventually(lambda: not _family(allocation.id))
    assert cluster.allocation(allocation.id).state is AllocationState.RUNNING  # for others to see


def test_kill_9_of_agent_and_guard_at_once_leaves_the_rest_to_the_next_agents_sweep(
    cluster: Cluster, spawn: Spawn, tmp_path: Path
) -> None:
    node = cluster.node()
    path = tmp_path / "pid"
    allocation = cluster.assign(node, _train(path))
    agent = spawn(node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    orphan = int(eventually(lambda: path.exists() and path.read_text()))
    guards = psutil.Process(agent.pid).children()
    os.kill(agent.pid, signal.SIGSTOP)
    for guard in guards:
        guard.kill()
    agent.kill()
    agent.wait()
    assert psutil.pid_exists(orphan)
    spawn(cluster.node())
    eventually(lambda: not _family(allocation.id))


def test_an_agent_started_again_adopts_no_ranks_and_frees_their_allocation_at_once(
    cluster: Cluster, spawn: Spawn, tmp_path: Path
) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, _train(tmp_path / "pid"))
    agent = spawn(node)
    eventually(lambda: list(read_logs(cluster.ws.blobs, allocation.trial)))
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    agent.kill()
    agent.wait()
    spawn(node)
    released = cluster.released(allocation.id)
    assert released.exit is not None
    assert released.exit.kind is ExitKind.INFRASTRUCTURE
    assert _family(allocation.id) == []
    later = cluster.assign(node, [("exit", 0)])
    assert cluster.released(later.id).exit == Exit(kind=ExitKind.COMPLETED)


def test_a_second_agent_for_the_same_node_is_refused(cluster: Cluster, spawn: Spawn) -> None:
    node = cluster.node()
    first = spawn(node)
    eventually(lambda: cluster.ws.store.get(Node, node.id).ready)
    out, _ = (second := spawn(node)).communicate(timeout=60)
    assert second.returncode == ExitCode.REFUSED
    assert "already has an agent" in out
    assert first.poll() is None


def test_logs_that_a_killed_agent_had_not_shipped_are_shipped_by_the_next(
    cluster: Cluster, spawn: Spawn
) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, [("say", "first"), ("until_asked", 60)])
    agent = spawn(node)
    eventually(lambda: list(read_logs(cluster.ws.blobs, allocation.trial)))
    log = cluster.ws.home / "nodes" / node.id / allocation.id / "logs" / "rank0.log"
    os.kill(agent.pid, signal.SIGSTOP)
    with log.open("a") as file:
        file.write("last words\n")
    agent.kill()
    agent.wait()
    spawn(cluster.node())
    eventually(lambda: len(list(read_logs(cluster.ws.blobs, allocation.trial))) == 2)
    lines = [line.text for line in read_logs(cluster.ws.blobs, allocation.trial)]
    assert lines == ["first", "last words"]
    eventually(lambda: not log.exists())


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--pool", "nowhere"], ExitCode.NOT_FOUND, "there is no pool 'nowhere'"),
        (["--pool", "local", "--node", "../up"], ExitCode.USAGE, "is not an id"),
        (["--pool", "local", "--node", "node-00000000000"], ExitCode.NOT_FOUND, "no node"),
    ],
)
def test_a_wrong_start_is_told_and_has_its_exit_code(
    tmp_path: Path, arguments: list[str], status: ExitCode, words: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "burst.runner.agent", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert done.returncode == status
    assert words in done.stderr
    assert "Traceback" not in done.stderr
