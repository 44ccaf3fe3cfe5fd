"""One allocation on this node, from taking it up to releasing it, in a thread of its own."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from burst.core.errors import BurstError
from burst.core.launch import Outcome, Stop, StopFlag, first_failure
from burst.core.model import Allocation, Drain, DrainCause, Exit, ExitKind, Failure
from burst.core.states import AllocationState, Reason
from burst.runner.agent.classify import Ended, classify
from burst.runner.agent.environment import CannotPrepare, marks
from burst.runner.agent.masking import mask_exit
from burst.runner.agent.memory import OomCounter
from burst.runner.agent.preparation import (
    Start,
    Work,
    command_text,
    environment_of,
    prepare,
    secrets_of,
)
from burst.runner.agent.process import Process
from burst.runner.agent.releasing import Overtaken, note_drain, release, step
from burst.runner.agent.reporting import Reporting
from burst.runner.agent.schedule import Schedule, Step, schedule_of
from burst.runner.agent.site import Site
from burst.runner.agent.sweep import sweep
from burst.runner.agent.tails import LAUNCHER_LOG, failing_log, last_lines_of

log = logging.getLogger(__name__)


class _Leaving(Exception):
    """Asked to leave before the ranks were started."""


class Attempt:
    """What others may call never blocks: `hear`, `ask` and `enforce` take no I/O but signals."""

    def __init__(self, site: Site, allocation: Allocation) -> None:
        self.site = site
        self.id = allocation.id
        self.allocation = allocation
        self.folder = site.folder / allocation.id
        self.drain: Drain | None = None
        """Why it was asked to leave, if it was."""
        self.released = threading.Event()
        """Set once its slots are free."""
        self.done = threading.Event()
        """Set once nothing of it is left to do."""
        self.broken_node = ""
        """What the attempt found wrong with the node itself."""
        self._lock = threading.RLock()
        self._schedule = Schedule()
        self._applied = Step.NOTHING
        self._process: Process | None = None
        self._flag: StopFlag | None = None
        self._forced = False
        self._forced_first = False
        self._lost = False
        self._grace = site.settings.grace
        self._thread = threading.Thread(target=self._run, name=allocation.id, daemon=True)

    def start(self) -> None:
        self._thread.start()

    # --- asked from outside -------------------------------------------------------------------

    def hear(self, allocation: Allocation) -> None:
        """Take in the record as the store has it now."""
        with self._lock:
            self.allocation = allocation
        if allocation.state is AllocationState.LOST:
            self.lose()
        elif allocation.drain is not None and allocation.state is AllocationState.DRAINING:
            self.ask(allocation.drain)

    def ask(self, drain: Drain, schedule: Schedule | None = None) -> None:
        """Ask the ranks to leave; by default on the schedule that the drain means.

        Again only makes it sooner: a request to leave is never taken back.
        """
        with self._lock:
            if self.drain == drain and schedule is None:
                return
            if self.drain is None or drain.cause is DrainCause.KILL:
                self.drain = drain
            clock = self.site.clock
            if schedule is None:
                schedule = schedule_of(
                    drain, grace=self._grace, wall=clock.now(), now=clock.monotonic()
                )
            self._schedule = self._schedule.sooner(schedule)
        self.enforce(self.site.clock.monotonic())

    def lose(self) -> None:
        """The allocation is another's: end its processes at once and write nothing more."""
        with self._lock:
            self._lost = True
        now = self.site.clock.monotonic()
        self.ask(Drain(cause=DrainCause.KILL, at=self.site.clock.now()), Schedule(now, now, now))

    def enforce(self, now: float) -> None:
        """Do to the processes what the schedule says is due. Never blocks."""
        with self._lock:
            due = self._schedule.due(now)
            if due > self._applied:
                self._applied = due
                self._apply(due)

    def _apply(self, due: Step) -> None:
        if self._flag is not None and due >= Step.ASK:
            self._flag.set(Stop.DRAIN, self._deadline())
        if self._process is None:
            return
        preparing = self._flag is None
        if due >= Step.ABANDON:
            self._process.abandon()
        elif due >= Step.KILL or preparing:
            self._force()
            self._process.kill()
        elif due >= Step.TERMINATE:
            self._force()
            self._process.terminate()

    def _force(self) -> None:
        if not self._forced:
            self._forced = True
            self._forced_first = not any((self.folder / "failures").glob("rank*.json"))

    def _deadline(self) -> float:
        clock = self.site.clock
        left = self._schedule.terminate - clock.monotonic()
        return clock.now() + left if left < 1e9 else 0.0

    # --- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._live()
        except Overtaken as error:
            log.info("gave up %s: %s", self.id, error.what)
        except Exception:
            log.exception("running %s", self.id)
        finally:
            sweep((self.id,))
            self.released.set()
            self.done.set()
            self.site.wake()

    def _live(self) -> None:
        """Take it up, run it, release it. Whatever happens in between becomes its Exit."""
        self._take_up()
        reporting: Reporting | None = None
        secrets: dict[str, str] = {}
        try:
            work = Work.of(self.site, self.allocation)
            self._grace = work.config.drain_grace
            secrets = secrets_of(self.site, work)
            self._make_folder()
            reporting = Reporting(self.site, work, self.folder, tuple(secrets.values()))
            reporting.start()
            exit = self._train(work, secrets, reporting)
        except _Leaving:
            exit = Exit(kind=ExitKind.DRAINED)
        except CannotPrepare as error:
            exit = self._not_prepared(error)
        except (OSError, BurstError) as error:
            if isinstance(error, Overtaken):
                raise
            exit = self._infrastructure(error)
        sweep((self.id,))
        self._release(mask_exit(exit, secrets.values()), reporting)

    def _take_up(self) -> None:
        if self.allocation.state is AllocationState.DRAINING:
            return
        reason = Reason(code="taken", text=f"taken up by {self.site.node.id}")
        try:
            self.allocation = step(
                self.site.ws.store, self.id, AllocationState.STARTING, reason, self.site.clock
            )
        except Overtaken:
            record = self.site.ws.store.get(Allocation, self.id)
            if record.state is not AllocationState.DRAINING:
                raise
            self.hear(record)

    def _make_folder(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "logs").mkdir(parents=True)

    def _train(self, work: Work, secrets: dict[str, str], reporting: Reporting) -> Exit:
        environ = environment_of(self.site, work, secrets)
        environ.update(marks(self.id, str(self.folder / "spec.json")))

        def run(command: Sequence[str], folder: Path) -> None:
            self._run_step(Start(tuple(command), environ, folder))

        start = prepare(self.site, work, self.folder, secrets, run)
        memory = OomCounter()
        self._flag = StopFlag(self.folder / "stop")
        try:
            process = self._attach(start)
            self._say_running()
            reporting.watch(process.pid)
            status = process.wait()
        finally:
            with self._lock:
                self._process = None
                self._flag.close()
                self._flag = None
        return classify(self._ended(status, memory.grew()))

    def _run_step(self, start: Start) -> None:
        """One command of the preparation; the log has what it says.

        Raises:
            CannotPrepare: it failed; its last lines are the reason.
            _Leaving: the attempt was asked to leave meanwhile.
        """
        path = self.folder / "logs" / LAUNCHER_LOG
        with path.open("a") as file:
            file.write(f"$ {command_text(start.command)}\n")
        begun = path.stat().st_size
        status = self._attach(start).wait()
        with self._lock:
            self._process = None
            if self._applied >= Step.ASK:
                raise _Leaving
        if status != 0:
            raise CannotPrepare(
                f"`{command_text(start.command)}` ended with status {status}",
                why=last_lines_of(path, begun) or "it wrote nothing",
                mend="correct environment in the experiment file",
            )

    def _attach(self, start: Start) -> Process:
        """Start a process that `enforce` reaches from its first moment."""
        with self._lock:
            if self._applied >= Step.ASK:
                raise _Leaving
            self._process = Process(
                start.command,
                environ=start.environ,
                folder=start.folder,
                log=self.folder / "logs" / LAUNCHER_LOG,
            )
            return self._process

    def _say_running(self) -> None:
        """Best effort: an unreachable store does not stop the ranks, the lease does."""
        reason = Reason(code="started", text=f"runs on {self.site.node.host or self.site.node.id}")
        clock = self.site.clock
        try:
            step(
                self.site.ws.store,
                self.id,
                AllocationState.RUNNING,
                reason,
                clock,
                started=clock.now(),
            )
        except Overtaken:
            self.site.wake()  # asked to drain, or lost: the agent hears which
        except BurstError as error:
            log.warning("noting that %s runs: %s", self.id, error.what)

    def _ended(self, status: int | None, out_of_memory: bool) -> Ended:
        failure = None if self._forced_first else first_failure(self.folder)
        rank, text = failing_log(self.folder / "logs")
        return Ended(
            status=status,
            outcome=Outcome.read(self.folder),
            failure=failure,
            drain=self.drain,
            forced=self._forced,
            log=text,
            log_rank=rank,
            out_of_memory=out_of_memory,
        )

    # --- the end ------------------------------------------------------------------------------

    def _not_prepared(self, error: CannotPrepare) -> Exit:
        failure = Failure(kind="preparation", message=error.what, traceback=str(error))
        return Exit(kind=ExitKind.CRASHED, failure=failure)

    def _infrastructure(self, error: Exception) -> Exit:
        log.warning("running %s: %s", self.id, error)
        if isinstance(error, OSError):
            self.broken_node = str(error)
        failure = Failure(kind=type(error).__name__, message=str(error).splitlines()[0])
        return Exit(kind=ExitKind.INFRASTRUCTURE, failure=failure)

    def _release(self, exit: Exit, reporting: Reporting | None) -> None:
        settings, clock = self.site.settings, self.site.clock
        shipped = reporting is None or reporting.finish(settings.flush_patience)
        if not self._lost:
            until = clock.monotonic() + settings.lease
            release(self.site.ws.store, self.id, exit, clock, lambda: clock.monotonic() < until)
        self.released.set()
        self.site.wake()
        if not shipped and reporting is not None:
            reporting.finish(settings.keep_shipping)
        shutil.rmtree(self.folder, ignore_errors=True)

    def publish(self) -> None:
        """Tell the store of a drain that began here rather than there.

        Raises:
            BurstError: the store did not take it.
        """
        drain = self.drain
        if drain is None or self._lost or self.released.is_set():
            return
        if self.allocation.state is not AllocationState.DRAINING:
            note_drain(self.site.ws.store, self.id, drain, self.site.clock)
