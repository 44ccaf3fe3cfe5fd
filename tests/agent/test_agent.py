"""The agent with real processes: from an assigned allocation to its exit."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from burst.core.launch import EXIT_FENCED, EXIT_INVALID_HP
from burst.core.logs import LAUNCHER, read_logs
from burst.core.model import Allocation, DrainCause, Exit, ExitKind, Failure, Node
from burst.core.states import AllocationState
from burst.core.store.port import Put
from tests.agent.conftest import Cluster, Do, Running, eventually

Start = Callable[..., Running]
TRAIN: Do = [("say", "step"), ("until_asked", 30)]


def _exit(allocation: Allocation) -> Exit:
    assert allocation.exit is not None
    return allocation.exit


def _failure(allocation: Allocation) -> Failure:
    failure = _exit(allocation).failure
    assert failure is not None
    return failure


def _lines(cluster: Cluster, allocation: Allocation, rank: int | None = None) -> list[str]:
    return [line.text for line in read_logs(cluster.ws.blobs, allocation.trial, rank=rank)]


def test_an_assigned_allocation_runs_and_is_released(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, [("say", "hello"), ("outcome", "completed")])
    start(node)
    released = cluster.released(allocation.id)
    assert _exit(released).kind is ExitKind.COMPLETED
    assert released.started is not None
    assert released.ended is not None
    assert _lines(cluster, released) == ["hello"]
    names = [event.name for event in cluster.ws.store.events().events]
    assert [name for name in names if name.startswith("allocation.")] == [
        "allocation.starting",
        "allocation.running",
        "allocation.released",
    ]


def test_an_agent_registers_its_machine(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    start(node)

    def ready() -> Node | None:
        found = cluster.ws.store.get(Node, node.id)
        return found if found.ready else None

    found: Node = eventually(ready)
    assert [slot.index for slot in found.slots] == list(range(node.expected_slots))
    assert found.facts["problems"] == []
    assert found.idle_since is not None
    assert found.host


def test_the_ranks_find_their_spec_their_code_and_their_variables(
    cluster: Cluster, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LISTED", str(tmp_path / "listed"))
    node = cluster.node()
    do: Do = [("print", "to the launcher"), ("variable", "COLOUR"), ("exit", 0)]
    allocation = cluster.assign(
        node, do, environment={"variables": {"COLOUR": "red"}, "setup": ["ls > $LISTED"]}
    )
    start(node)
    released = cluster.released(allocation.id)
    assert _exit(released).kind is ExitKind.COMPLETED
    assert (tmp_path / "listed").read_text() == "train.py\n"
    assert _lines(cluster, released, 0) == ["COLOUR=red"]
    assert "to the launcher" in _lines(cluster, released, LAUNCHER)


def test_several_allocations_run_at_once(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    first, second = (cluster.assign(node, TRAIN, slots=(slot,)) for slot in (0, 1))
    start(node)
    for allocation in (first, second):
        cluster.reaches(allocation.id, AllocationState.RUNNING)
    cluster.drain(first.id, DrainCause.PAUSE)
    assert _exit(cluster.released(first.id)) == Exit(kind=ExitKind.DRAINED)
    assert cluster.allocation(second.id).state is AllocationState.RUNNING


@pytest.mark.parametrize(
    ("do", "kind"),
    [
        ([("exit", EXIT_INVALID_HP)], ExitKind.INVALID_HP),
        ([("exit", EXIT_FENCED)], ExitKind.INFRASTRUCTURE),
        ([("outcome", "stopped")], ExitKind.STOPPED),
        ([("exit", 9)], ExitKind.CRASHED),
        ([("fail", "bad")], ExitKind.CRASHED),
    ],
)
def test_how_the_processes_end_is_how_the_allocation_ends(
    cluster: Cluster, start: Start, do: Do, kind: ExitKind
) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, do)
    start(node)
    assert _exit(cluster.released(allocation.id)).kind is kind


def test_a_crash_shows_the_users_own_traceback(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, [("raise", "my fault")])
    start(node)
    released = cluster.released(allocation.id)
    failure = _failure(released)
    assert (failure.kind, failure.message, failure.exit_code) == ("RuntimeError", "my fault", 1)
    assert failure.traceback.startswith("Traceback (most recent call last)")
    assert "my fault" in str(released.reason)


def test_a_rank_killed_from_outside_has_crashed_and_memory_is_suggested(
    cluster: Cluster, start: Start
) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, [("signal", int(signal.SIGKILL))])
    start(node)
    failure = _failure(cluster.released(allocation.id))
    assert failure.kind == "SIGKILL"
    assert "memory" in failure.message


def test_a_grandchild_that_holds_stdout_neither_hangs_the_release_nor_survives_it(
    cluster: Cluster, start: Start, tmp_path: Path
) -> None:
    node = cluster.node()
    path = tmp_path / "pid"
    allocation = cluster.assign(node, [("grandchild", str(path)), ("outcome", "completed")])
    start(node)
    assert _exit(cluster.released(allocation.id)).kind is ExitKind.COMPLETED
    eventually(lambda: not psutil.pid_exists(int(path.read_text())))


# --- leaving ---------------------------------------------------------------------------------


def test_a_drain_is_seen_by_the_ranks_and_is_durable(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, TRAIN)
    start(node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    cluster.drain(allocation.id, DrainCause.PAUSE, seconds=20)
    assert _exit(cluster.released(allocation.id)) == Exit(kind=ExitKind.DRAINED)


def test_who_does_not_leave_by_the_deadline_is_terminated(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, [("sleep", 600)])
    start(node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    cluster.drain(allocation.id, DrainCause.PREEMPT, seconds=0.2)
    exit = _exit(cluster.released(allocation.id))
    assert (exit.kind, exit.durable) == (ExitKind.DRAINED, False)


def test_who_ignores_sigterm_is_killed(
    cluster: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burst.runner.agent.running.schedule.KILL_AFTER_S", 0.2)
    node = cluster.node()
    allocation = cluster.assign(node, [("deaf", None), ("say", "deaf"), ("sleep", 600)])
    start(node)
    eventually(lambda: _lines(cluster, allocation))
    cluster.drain(allocation.id, DrainCause.PREEMPT, seconds=0.1)
    exit = _exit(cluster.released(allocation.id))
    assert (exit.kind, exit.durable) == (ExitKind.DRAINED, False)


def test_a_kill_is_at_once_whatever_runs(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, [("deaf", None), ("say", "deaf"), ("sleep", 600)])
    start(node)
    eventually(lambda: _lines(cluster, allocation))
    cluster.drain(allocation.id, DrainCause.KILL)
    exit = _exit(cluster.released(allocation.id, 5))
    assert (exit.kind, exit.durable) == (ExitKind.DRAINED, False)


def test_a_crash_while_leaving_is_still_the_users_crash(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, [("say", "x"), ("sleep", 1.0), ("fail", "in checkpoint")])
    start(node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    cluster.drain(allocation.id, DrainCause.PAUSE, seconds=20)
    assert _failure(cluster.released(allocation.id)).message == "in checkpoint"


def test_a_drain_before_the_start_is_released_without_running(
    cluster: Cluster, start: Start
) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, [("say", "never")])
    cluster.drain(allocation.id, DrainCause.PAUSE)
    start(node)
    released = cluster.released(allocation.id)
    assert _exit(released) == Exit(kind=ExitKind.DRAINED)
    assert released.started is None


def test_a_drain_during_the_set_up_ends_it(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    setup = {"setup": ["echo begun; sleep 600"]}
    allocation = cluster.assign(node, TRAIN, environment=setup)
    start(node)
    eventually(lambda: "begun" in _lines(cluster, allocation))
    cluster.drain(allocation.id, DrainCause.PAUSE)
    released = cluster.released(allocation.id, 5)
    assert _exit(released) == Exit(kind=ExitKind.DRAINED)
    assert released.started is None


def test_an_allocation_declared_lost_is_killed_and_not_written_to(
    cluster: Cluster, start: Start, tmp_path: Path
) -> None:
    node = cluster.node()
    path = tmp_path / "pid"
    allocation = cluster.assign(node, [("deaf", None), ("write", str(path)), ("sleep", 600)])
    start(node)
    pid = int(eventually(lambda: path.exists() and path.read_text()))
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    cluster.lose(allocation.id)
    eventually(lambda: not psutil.pid_exists(pid))
    assert cluster.allocation(allocation.id).state is AllocationState.LOST
    assert cluster.allocation(allocation.id).exit is None


def test_an_idle_agent_leaves_and_the_node_is_gone(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    running = start(node, idle=0.3)
    reason = running.join()
    assert reason is not None
    assert reason.code == "idle"
    found = cluster.ws.store.get(Node, node.id)
    assert found.gone is not None
    assert found.gone_reason == reason
    assert not (cluster.ws.home / "nodes" / node.id).exists()


def test_an_agent_without_credentials_leaves_once_it_has_no_other_work(
    cluster: Cluster, start: Start, tmp_path: Path
) -> None:
    node = cluster.node()
    path = tmp_path / "other"
    lacking = cluster.assign(node, [("no_credentials", "there are none")])
    other = cluster.assign(node, [("write", str(path)), *TRAIN], slots=(1,))
    running = start(node, idle=600.0)
    cluster.reaches(lacking.id, AllocationState.RELEASED)
    exit = cluster.allocation(lacking.id).exit
    assert exit is not None
    assert exit.kind is ExitKind.INFRASTRUCTURE
    eventually(path.exists)
    assert cluster.ws.store.get(Node, node.id).draining is None
    cluster.drain(other.id, DrainCause.PAUSE)
    reason = running.join()
    assert reason is not None
    assert (reason.code, "credentials" in reason.text) == ("idle", True)


def test_a_node_that_is_told_to_leave_drains_what_runs_first(
    cluster: Cluster, start: Start
) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, TRAIN)
    running = start(node)
    cluster.reaches(allocation.id, AllocationState.RUNNING)
    running.tell_to_leave()
    reason = running.join()
    assert reason is not None
    assert reason.code == "told"
    released = cluster.allocation(allocation.id)
    assert _exit(released) == Exit(kind=ExitKind.DRAINED)
    assert released.drain is not None
    assert released.drain.cause is DrainCause.NODE


def test_an_allocation_given_to_a_leaving_node_goes_back_to_the_queue(
    cluster: Cluster, start: Start
) -> None:
    node = cluster.node()
    cluster.ws.store.commit(Put(node.model_copy(update={"draining": 1.0})))
    allocation = cluster.assign(node, TRAIN)
    start(node).join()
    released = cluster.allocation(allocation.id)
    assert _exit(released) == Exit(kind=ExitKind.DRAINED)
    assert released.started is None


# --- what goes wrong before the ranks --------------------------------------------------------


def test_a_set_up_command_that_fails_is_shown_with_what_it_said(
    cluster: Cluster, start: Start
) -> None:
    node = cluster.node()
    setup = {"setup": ["echo installing; echo no such package >&2; exit 3"]}
    allocation = cluster.assign(node, TRAIN, environment=setup)
    start(node)
    released = cluster.released(allocation.id)
    failure = _failure(released)
    assert _exit(released).kind is ExitKind.CRASHED
    assert "ended with status 3" in failure.message
    assert "no such package" in failure.traceback
    assert "no such package" in _lines(cluster, released, LAUNCHER)


def test_secrets_reach_the_ranks_and_nobody_else(
    cluster: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_TOKEN", "hunter22")
    node = cluster.node()
    environment = {"secrets": {"TOKEN": "env:NODE_TOKEN"}}
    do: Do = [("variable", "TOKEN"), ("raise", "it is hunter22")]
    allocation = cluster.assign(node, do, environment=environment)
    start(node)
    released = cluster.released(allocation.id)
    assert _lines(cluster, released, 0) == ["TOKEN=***"]
    assert "hunter22" not in released.model_dump_json()
    assert "it is ***" in _failure(released).message
    assert "hunter22" not in "".join(_lines(cluster, released))


def test_a_missing_secret_is_the_owners_to_mend(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, TRAIN, environment={"secrets": {"TOKEN": "env:NOT_SET"}})
    start(node)
    released = cluster.released(allocation.id)
    assert _exit(released).kind is ExitKind.CRASHED
    assert "NOT_SET" in _failure(released).traceback


@pytest.mark.parametrize("damage", ["missing", "other bytes"])
def test_code_that_is_missing_or_damaged_is_told_plainly(
    cluster: Cluster, start: Start, damage: str
) -> None:
    key = f"code/{cluster.code.digest}.tar.gz"
    if damage == "missing":
        cluster.ws.blobs.delete(key)
    else:
        cluster.ws.blobs.put(key, b"\x1f\x8b not an archive")
    node = cluster.node()
    allocation = cluster.assign(node, TRAIN)
    start(node)
    released = cluster.released(allocation.id)
    assert _exit(released).kind is ExitKind.CRASHED
    assert ("is not in the blobs" if damage == "missing" else "is damaged") in _failure(
        released
    ).message


def test_an_interpreter_that_is_not_there_is_no_crash_of_the_users(
    cluster: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, TRAIN)
    monkeypatch.setattr("burst.runner.agent.preparing.preparation.sys", _Sys("/no/such/python"))
    start(node)
    released = cluster.released(allocation.id)
    assert _exit(released).kind is ExitKind.INFRASTRUCTURE
    assert "/no/such/python" in _failure(released).message


class _Sys:
    def __init__(self, executable: str) -> None:
        self.executable = executable

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)


def test_slots_that_the_node_has_not_are_refused(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, TRAIN, slots=(99,))
    start(node)
    assert "slot 99" in _failure(cluster.released(allocation.id)).message


# --- what it tells meanwhile -----------------------------------------------------------------


def test_hardware_is_sampled_while_the_ranks_run(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, TRAIN)
    start(node)

    def sampled() -> dict[str, float] | None:
        chunks = cluster.ws.store.metrics(allocation.trial, "hardware")
        rows = [row for chunk in chunks for row in chunk.rows]
        return dict(rows[-1].metrics) if len(rows) > 6 else None

    row: dict[str, float] = eventually(sampled)
    assert row["memory"] > row["process_memory"] > 1e6
    assert {"cpu", "process_cpu", "disk_read", "disk_written", "received", "sent"} <= row.keys()


def test_nothing_of_an_attempt_is_left_on_the_disk(cluster: Cluster, start: Start) -> None:
    node = cluster.node()
    allocation = cluster.assign(node, [("say", "x"), ("exit", 0)])
    start(node)
    cluster.released(allocation.id)
    folder = cluster.ws.home / "nodes" / node.id / allocation.id
    eventually(lambda: not folder.exists())
