"""All that the model knows, behind one lock, and what happens to machines."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from burst.core.clock import Clock, SystemClock
from burst.core.errors import NotFound, Refused
from burst.runner.agent.running.process import Process
from burst.runner.rehearsal.ec2.events import (
    Bus,
    Nobody,
    should_be_rebalanced,
    state_changed,
    will_be_interrupted,
)
from burst.runner.rehearsal.ec2.faults import Faults
from burst.runner.rehearsal.ec2.gates import Gates
from burst.runner.rehearsal.ec2.machine import USES_CAPACITY, Machine, Reason, State
from burst.runner.rehearsal.ec2.marks import sweep
from burst.runner.rehearsal.ec2.rules import CapacityRule, Kind, Quota, Supply
from burst.runner.rehearsal.ec2.settings import Settings
from burst.runner.rehearsal.ec2.tokens import Tokens

log = logging.getLogger(__name__)

_CLOCK = SystemClock()
_NOBODY = Nobody()
_CLOSING_S = 20.0
_ENDPOINT = "AWS_ENDPOINT_URL"
"""So begin the names of what a partition cuts; the metadata service is on the machine itself."""
Environ = Callable[[Machine], Mapping[str, str]]


@dataclass(frozen=True)
class Group:
    """A placement group."""

    id: str
    name: str
    strategy: str
    tags: Mapping[str, str]


@dataclass
class Cloud:
    """What is set is set under `lock`, which every call of the API holds."""

    folder: Path
    """A folder a machine, named like it."""
    environ: Environ
    """Where a machine finds the servers, as variables."""
    url: str
    """Of the model itself."""
    clock: Clock = _CLOCK
    bus: Bus = _NOBODY
    settings: Settings = field(default_factory=Settings)
    gates: Gates = field(default_factory=Gates)
    lock: threading.RLock = field(default_factory=threading.RLock)
    capacity: list[CapacityRule] = field(default_factory=list)
    quotas: list[Quota] = field(default_factory=list)
    refusals: list[tuple[Kind, str, str]] = field(default_factory=list)
    """What is refused whatever there is, with EC2's code and words."""
    prices: dict[Kind, float] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    tokens: Tokens = field(default_factory=Tokens)
    machines: dict[str, Machine] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    """Of each operation, so far."""
    groups: dict[str, Group] = field(default_factory=dict)
    """Placement groups, by name."""

    def __post_init__(self) -> None:
        self._changed = threading.Condition(self.lock)

    def find(self, id: str) -> Machine:
        """Raises NotFound."""
        if id not in self.machines:
            raise NotFound(f"no machine {id}")
        return self.machines[id]

    def supply(self, vcpus: Mapping[str, int]) -> Supply:
        """What there is now, with the vCPUs of each type."""
        living = [each for each in self.machines.values() if each.state in USES_CAPACITY]
        used = Counter(each.kind for each in living)
        return Supply(tuple(self.capacity), tuple(self.quotas), vcpus, used, self.clock.now())

    def add(self, machine: Machine) -> None:
        """Take on a machine that was just made; it boots by itself."""
        with self.lock:
            self.machines[machine.id] = machine
            self._set(machine, State.PENDING, Reason.NONE)
            self._later(machine, "boot", self.settings.boot, self._boot)

    def end(self, machine: Machine, reason: Reason) -> None:
        """Everything that runs on it is killed, without warning; it is gone once nothing is left.

        Idempotent.
        """
        with self.lock:
            if machine.state is State.STOPPED:
                self._set(machine, State.TERMINATED, reason)
            if not machine.alive:
                return
            stopping = reason is Reason.ITSELF and machine.stops
            machine.ended = self.clock.now()
            for timer in machine.timers.values():
                timer.cancel()
            self._set(machine, State.STOPPING if stopping else State.SHUTTING_DOWN, reason)
            if machine.process is None:
                self._gone(machine)
            else:
                machine.process.kill()

    def interrupt(self, machine: Machine, notice: float | None) -> float:
        """Take a machine away after `notice` seconds; None tells it nothing and ends it now, as a
        reclaim does and, of a machine on demand, a failure.

        Returns when it ends.

        Raises:
            Refused: it has ended, or it is on demand and a notice makes no sense.
        """
        with self.lock:
            if not machine.alive:
                raise Refused(f"{machine.id} has ended already")
            spot, now = machine.kind.market == "spot", self.clock.now()
            if notice is None:
                self.end(machine, Reason.RECLAIMED if spot else Reason.FAILED)
                return now
            if not spot:
                raise Refused(f"{machine.id} is no spot instance: it is never reclaimed")
            machine.noticed, machine.reclaim_at = now, now + notice
            self.bus.put(will_be_interrupted(machine.id, machine.kind.zone, self._told()))
            self._later(machine, "reclaim", notice, self._reclaim)
            return machine.reclaim_at

    def recommend_rebalance(self, machine: Machine) -> None:
        """Tell a machine that it is likely to be taken away."""
        with self.lock:
            machine.rebalance = self.clock.now()
            self.bus.put(should_be_rebalanced(machine.id, machine.kind.zone, self._told()))

    def partition(self, machine: Machine, cut: bool) -> None:
        """Cut a machine off from the servers, or join it again; machines reach each other."""
        with self.lock:
            machine.partitioned = cut
            for gate in machine.gates:
                gate.cut(cut)

    def shutdown(self, machine: Machine, after: float | None) -> None:
        """What the machine's own `shutdown` asks for: its end in `after` seconds; None takes an
        earlier wish back."""
        with self.lock:
            if "shutdown" in machine.timers:
                machine.timers.pop("shutdown").cancel()
            if after is not None and machine.alive:
                self._later(machine, "shutdown", after, self._shut_down)

    def close(self) -> None:
        """End every machine, and return when nothing of them runs."""
        with self.lock:
            for machine in list(self.machines.values()):
                self.end(machine, Reason.USER)
            self._changed.wait_for(self._all_gone, timeout=_CLOSING_S)
        sweep(str(self.folder), seconds=_CLOSING_S)

    def _all_gone(self) -> bool:
        ends = (State.TERMINATED, State.STOPPED)
        return all(machine.state in ends for machine in self.machines.values())

    def _boot(self, machine: Machine) -> None:
        if machine.state is not State.PENDING:
            return
        command = machine.disk.make(
            machine.user_data, f"{self.url}/_burst/machines/{machine.id}/shutdown"
        )
        environ = machine.disk.environ(os.environ, self._connected(machine))
        try:
            machine.process = Process(
                command, environ=environ, folder=machine.disk.root, log=machine.disk.console
            )
        except OSError as error:
            log.error("%s cannot boot: %s", machine.id, error)
            self.end(machine, Reason.FAILED)
            return
        machine.booted = self.clock.now()
        self._set(machine, State.RUNNING, Reason.NONE)
        name = f"watch-{machine.id}"
        threading.Thread(target=self._watch, args=(machine,), name=name, daemon=True).start()

    def _connected(self, machine: Machine) -> Mapping[str, str]:
        """Where the machine finds the servers: each behind a gate of its own."""
        found = {}
        for name, value in self.environ(machine).items():
            if name.startswith(_ENDPOINT):
                gate = self.gates.open(value)
                gate.cut(machine.partitioned)
                machine.gates += (gate,)
                value = gate.url
            found[name] = value
        return found

    def _watch(self, machine: Machine) -> None:
        """Wait until nothing of a machine runs, whoever ended it."""
        assert machine.process is not None
        reason = Reason.ITSELF  # whatever runs there has killed its own first process
        try:
            machine.process.wait()
        except OSError as error:
            log.error("%s cannot boot: %s", machine.id, error)
            reason = Reason.FAILED
        sweep(str(machine.disk.root))
        machine.disk.forget()
        with self.lock:
            self.end(machine, reason)
            self._gone(machine)

    def _reclaim(self, machine: Machine) -> None:
        self.end(machine, Reason.RECLAIMED)

    def _shut_down(self, machine: Machine) -> None:
        self.end(machine, Reason.ITSELF)

    def _gone(self, machine: Machine) -> None:
        machine.gone = self.clock.now()
        for gate in machine.gates:
            gate.close()
        stopped = machine.state is State.STOPPING
        self._set(machine, State.STOPPED if stopped else State.TERMINATED, machine.reason)

    def _set(self, machine: Machine, state: State, reason: Reason) -> None:
        machine.state, machine.reason = state, reason
        machine.body.show(state, reason, self.clock.now())
        self.bus.put(state_changed(machine.id, state, machine.kind.zone, self._told()))
        self._changed.notify_all()

    def _told(self) -> float:
        """Now, by EC2's clock."""
        return self.clock.now() + self.settings.skew

    def _later(
        self, machine: Machine, name: str, seconds: float, act: Callable[[Machine], None]
    ) -> None:
        def locked() -> None:
            with self.lock:
                act(machine)

        if name in machine.timers:
            machine.timers[name].cancel()
        timer = threading.Timer(seconds, locked)
        timer.daemon = True
        machine.timers[name] = timer
        timer.start()
