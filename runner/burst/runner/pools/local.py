"""This machine as a pool: one agent process, which outlives whoever started it.

What is known of the agent lies beside its logs in `<home>/nodes/<node>/agent.json`: its process id
and start time, so that another process that got the same id is not taken for it. Between starting
the agent and writing that file anything may end the runner; the agent carries its node's id in its
environment, so the next launch finds it there.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from burst.core.clock import Clock, SystemClock
from burst.core.config.cluster import LocalPool as LocalPoolConfig
from burst.core.errors import Refused
from burst.core.launch import ALLOCATION_VARIABLE
from burst.core.model import Json, Node, Refusal, RefusalKind, Supply
from burst.runner.agent.hardware.machine import default_slots
from burst.runner.agent.running.sweep import kill_all
from burst.runner.agent.site import nodes_folder
from burst.runner.pools.port import Launched, Leftover, Limits, Liveness, Machine
from burst.runner.supply import EVERY_OFFER, closed_until

NODE_VARIABLE = "BURST_NODE"
"""In the environment of a local agent and all that it starts: the node's id."""
SLOTS_VARIABLE = "BURST_LOCAL_SLOTS"
_SAME_START_S = 1.0
_RETRY_S = 3.0
_END_WITHIN_S = 10.0
_LEAVE_WITHIN_S = 3.0
"""How long an agent that has said goodbye may take to end."""
# The shell leaves the agent to the machine's first process, which collects it when it ends.
_DETACHED = ("/bin/sh", "-c", '"$@" >&2 & echo $!', "burst")


class LocalPool:
    """At most one agent a machine and pool. Handles: host, process id, start time, group."""

    def __init__(
        self,
        name: str,
        home: Path,
        config: LocalPoolConfig,
        *,
        environ: Mapping[str, str] | None = None,
        allocations_of: Callable[[Node], Collection[str]] = lambda node: (),
        clock: Clock | None = None,
    ) -> None:
        """
        Args:
            environ: what the agent is started with; this process's by default.
            allocations_of: ids of the node's live allocations, to end what a dead agent has left.
        """
        self.name = name
        self._home = home
        self._config = config
        self._environ = dict(os.environ if environ is None else environ)
        self._allocations_of = allocations_of
        self._clock = clock or SystemClock()
        self._slots = 0

    @property
    def limits(self) -> Limits:
        if not self._slots:
            said = self._environ.get(SLOTS_VARIABLE, "")
            given = int(said) if said.isdigit() and int(said) > 0 else 0
            self._slots = self._config.slots or given or default_slots()
        return Limits(slots_per_node=self._slots, max_nodes=1)

    @property
    def look_every(self) -> float:
        return 0.0

    def closed_until(self, supply: Supply, now: float) -> float | None:
        return closed_until(supply, now)

    def ask(
        self, count: int, *, whole: bool, beside: Node | None, supply: Supply, now: float
    ) -> Mapping[str, Json]:
        return {}

    def launch(self, nodes: Sequence[Node]) -> Launched:
        """The agent of the first node; a machine has no place for others."""
        try:
            return Launched(tuple(self._launch(node) for node in nodes[:1]))
        except Refused as refused:
            now = self._clock.now()
            text = refused.what + (f" ({refused.why})" if refused.why else "")
            refusal = Refusal(
                kind=RefusalKind.BUG, code="failed", text=text, at=now, until=now + _RETRY_S
            )
            return Launched(refusals={EVERY_OFFER: refusal})

    def machines(self) -> Sequence[Machine]:
        return ()

    def end(self, machine: Machine) -> None:
        """Nothing here runs without a record."""

    def console(self, node: Node) -> str:
        """Where the agent's log is: it lies on this machine."""
        path = node.handle.get("log", "")
        return f"see {path}" if path else ""

    def withdrawn(self, node: Node) -> Mapping[str, Refusal]:
        return {}

    def leftovers(self) -> Sequence[Leftover]:
        return ()

    def remove(self, leftover: Leftover) -> bool:
        return True

    def _launch(self, node: Node) -> Node:
        folder = nodes_folder(self._home)
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / f"{self.name}.lock"):
            handle = _read_handle(self._file(node.id))
            if handle is None:
                handle = self._adopt(node.id) or self._start(node)
                handle["log"] = str(self._file(node.id).with_name("agent.log"))
                _write_json(self._file(node.id), handle)
        return node.model_copy(update={"launched": self._clock.now(), "handle": handle})

    def observe(self, nodes: Sequence[Node]) -> dict[str, Liveness]:
        return {node.id: _liveness(node) for node in nodes}

    def terminate(self, node: Node) -> None:
        if node.handle and node.handle.get("host") != socket.gethostname():
            return
        allocations = set(self._allocations_of(node))
        kill_all(lambda: self._processes(node, allocations), _END_WITHIN_S)

    def _processes(self, node: Node, allocations: Collection[str]) -> Iterator[psutil.Process]:
        """The agent, its group, and whoever carries the node's or an allocation's id."""
        group = int(node.handle.get("group", 0)) if _liveness(node) is Liveness.ALIVE else 0
        for process in psutil.process_iter():
            if process.pid == os.getpid():
                continue
            try:
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                if group and os.getpgid(process.pid) == group:
                    yield process
                    continue
                environ = process.environ()
            except (psutil.Error, OSError):
                continue
            marked = environ.get(ALLOCATION_VARIABLE, "") in allocations
            if marked or environ.get(NODE_VARIABLE) == node.id:
                yield process

    def _start(self, node: Node) -> dict[str, Json]:
        folder = self._file(node.id).parent
        folder.mkdir(parents=True, exist_ok=True)
        program = [sys.executable, "-m", "burst.runner.agent"]
        command = [*_DETACHED, *program, "--node", node.id, "--pool", self.name]
        log = os.open(folder / "agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            done = subprocess.run(
                command,
                env={**self._environ, "BURST_HOME": str(self._home), NODE_VARIABLE: node.id},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                check=True,
                timeout=30.0,
            )
        finally:
            os.close(log)
        return _handle_of(int(done.stdout))

    def _adopt(self, node: str) -> dict[str, Json] | None:
        """The agent of a launch whose runner ended before it could say so.

        Raises:
            Refused: this machine runs the agent of another node of the pool, and it stays.
        """
        until = time.monotonic() + _LEAVE_WITHIN_S
        while True:
            agents = dict(self._agents())
            if node in agents:
                return _handle_of(agents[node])
            if not agents:
                return None
            if time.monotonic() > until:
                break
            time.sleep(0.05)
        other, pid = min(agents.items())
        raise Refused(
            f"this machine already runs the agent of node {other} in pool {self.name}",
            why=f"it is process {pid}, and a machine has one agent a pool",
        )

    def _agents(self) -> Iterator[tuple[str, int]]:
        """The agents of this pool and home that run here, as (node, process id)."""
        for process in psutil.process_iter():
            try:
                command = process.cmdline()
                if "burst.runner.agent" not in command or self.name not in command:
                    continue
                environ = process.environ()
            except (psutil.Error, OSError):
                continue
            if environ.get("BURST_HOME") == str(self._home) and NODE_VARIABLE in environ:
                yield environ[NODE_VARIABLE], process.pid

    def _file(self, node: str) -> Path:
        return nodes_folder(self._home) / node / "agent.json"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock at `path`, waiting for it; it ends with its holder."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _handle_of(pid: int) -> dict[str, Json]:
    try:
        started, group = psutil.Process(pid).create_time(), os.getpgid(pid)
    except (psutil.Error, OSError):
        started, group = 0.0, 0  # it has ended already, which its liveness then says
    return {"host": socket.gethostname(), "pid": pid, "started": started, "group": group}


def _liveness(node: Node) -> Liveness:
    handle = node.handle
    if not handle or handle.get("host") != socket.gethostname():
        return Liveness.UNKNOWN
    return Liveness.ALIVE if _is_alive(handle, node.id) else Liveness.DEAD


def _is_alive(handle: Mapping[str, Json], node: str) -> bool:
    try:
        process = psutil.Process(int(handle["pid"]))
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if abs(process.create_time() - float(handle["started"])) < _SAME_START_S:
            return True
        # The machine's date may have been set since; the environment does not lie.
        return process.environ().get(NODE_VARIABLE) == node
    except (psutil.Error, OSError, KeyError):
        return False


def _read_handle(path: Path) -> dict[str, Json] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "pid" in found else None


def _write_json(path: Path, value: Mapping[str, Json]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(value))
    os.replace(partial, path)
