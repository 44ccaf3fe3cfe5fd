"""What other threads may do to an attempt's processes: ask, terminate, kill; none of it waits."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burst.core.clock import Clock
from burst.core.launch import Stop, StopFlag
from burst.core.model import Drain, DrainCause
from burst.runner.agent.running.containers import Container
from burst.runner.agent.running.process import Process
from burst.runner.agent.running.schedule import Schedule, Step, schedule_of


class Leaving(Exception):
    """Asked to leave before the ranks were started."""


@dataclass(frozen=True)
class Start:
    """What to start: all that a process needs but its log."""

    command: tuple[str, ...]
    environ: Mapping[str, str]
    folder: Path
    container: Container | None = None
    """What it runs in; None is the node itself."""

    @property
    def program(self) -> tuple[str, ...]:
        """What the node runs for it."""
        if self.container is None:
            return self.command
        return self.container.wrap(self.command, self.environ, self.folder)


class Control:
    """One attempt's running process, and the schedule on which it has to end."""

    def __init__(self, folder: Path, log: Path, clock: Clock, grace: float) -> None:
        self.drain: Drain | None = None
        """Why it was asked to leave, if it was."""
        self.forced = False
        """Whether it was terminated or killed because it had to leave."""
        self.failed_before = False
        """Whether a rank had failed before that."""
        self.grace = grace
        self.news = threading.Event()
        """Set when something is due, and by whoever has other news for a thread that waits."""
        self._folder = folder
        self._log = log
        self._clock = clock
        self._lock = threading.RLock()
        self._schedule = Schedule()
        self._applied = Step.NOTHING
        self._process: Process | None = None
        self._flag: StopFlag | None = None

    def ask(self, drain: Drain, schedule: Schedule | None = None) -> None:
        """Ask the ranks to leave; by default on the schedule that the drain means.

        Again only makes it sooner: a request to leave is never taken back.
        """
        now = self._clock.monotonic()
        with self._lock:
            if schedule is None:
                if drain == self.drain:
                    return
                wall = self._clock.now()
                schedule = schedule_of(drain, grace=self.grace, wall=wall, now=now)
            if self.drain is None or drain.cause is DrainCause.KILL:
                self.drain = drain
            self._schedule = self._schedule.sooner(schedule)
        self.enforce(now)

    def end(self, terminate: float, kill: float) -> None:
        """Let it end for no reason of its own, after so many seconds: another part of its gang has
        ended. What its ranks may have to say of that meanwhile counts."""
        now = self._clock.monotonic()
        with self._lock:
            schedule = Schedule(ask=now, terminate=now + terminate, kill=now + kill)
            self._schedule = self._schedule.sooner(schedule)
        self.enforce(now)

    def enforce(self, now: float) -> None:
        """Do to the processes what the schedule says is due."""
        with self._lock:
            due = self._schedule.due(now)
            if due > self._applied:
                self._applied = due
                self._apply(due)
                self.news.set()

    def check(self) -> None:
        """Raises Leaving, where the attempt was asked to leave."""
        if self._applied >= Step.ASK:
            raise Leaving

    def run(self, start: Start) -> int | None:
        """Run a command of the preparation to its end, which comes early if asked to leave.

        Returns its status, see `Process.wait`.

        Raises:
            Leaving: the attempt was asked to leave, before or meanwhile.
            OSError: it could not be started.
        """
        process = self._attach(start)
        try:
            return process.wait()
        finally:
            self._detach()
            self.check()

    def start(self, start: Start) -> Process:
        """Start the ranks; from here on being asked to leave means the stop flag first.

        Raises:
            Leaving, OSError: as `run`.
        """
        with self._lock:
            process = self._attach(start)
            self._flag = StopFlag(self._folder / "stop")
            return process

    def finish(self) -> None:
        """The ranks have ended."""
        with self._lock:
            self._detach()
            if self._flag is not None:
                self._flag.close()
                self._flag = None

    def _attach(self, start: Start) -> Process:
        with self._lock:
            self.check()
            self._process = Process(
                start.program, environ=start.environ, folder=start.folder, log=self._log
            )
            return self._process

    def _detach(self) -> None:
        with self._lock:
            self._process = None

    def _apply(self, due: Step) -> None:
        if self._flag is not None:
            self._flag.set(Stop.DRAIN, self._deadline())
        if self._process is None:
            return
        if due >= Step.ABANDON:
            self._process.abandon()
        elif due >= Step.KILL or self._flag is None:
            self._force()
            self._process.kill()
        elif due >= Step.TERMINATE:
            self._force()
            self._process.terminate()

    def _force(self) -> None:
        if not self.forced:
            self.forced = True
            self.failed_before = any((self._folder / "failures").glob("rank*.json"))

    def _deadline(self) -> float:
        """When SIGTERM comes, as a date for the ranks."""
        return self._clock.now() + self._schedule.terminate - self._clock.monotonic()
