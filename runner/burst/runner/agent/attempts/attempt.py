"""One allocation on this node, from taking it up to releasing it, in a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading

from burst.core.errors import BurstError, Conflict, Unauthorized, Unreachable
from burst.core.launch import Outcome, failures_left, is_connected, names_class
from burst.core.model import Allocation, Drain, DrainCause, Exit, ExitKind, Failure, Json
from burst.core.states import AllocationState, Reason
from burst.runner.agent.attempts.masking import mask_exit
from burst.runner.agent.attempts.meeting import Meeting
from burst.runner.agent.attempts.rehearsal import Rehearsal
from burst.runner.agent.attempts.releasing import (
    Overtaken,
    note_drain,
    note_network,
    release,
    step,
)
from burst.runner.agent.attempts.reporting import Reporting
from burst.runner.agent.ends.causes import first_cause, told
from burst.runner.agent.ends.classify import Ended, classify
from burst.runner.agent.ends.gang import LEFT_BEHIND, is_broken, is_gang, never_met
from burst.runner.agent.ends.tails import LAUNCHER_LOG, failing_log, rank_logs, tail_of
from burst.runner.agent.hardware.machine import check_machine
from burst.runner.agent.hardware.memory import OomCounter
from burst.runner.agent.preparing.preparation import Preparation, Work
from burst.runner.agent.running.control import Control, Leaving, Start
from burst.runner.agent.running.environment import CannotPrepare
from burst.runner.agent.running.schedule import Schedule
from burst.runner.agent.running.sweep import sweep
from burst.runner.agent.site import Site
from burst.runner.proof import losing_pools, needs_proof

log = logging.getLogger(__name__)

_RETRY_S = 1.0
_LAST_WORDS_S = 2.0
"""Between hearing that another part of the gang has ended and ending one's own: of ranks that lost
a peer, the cause may be among them."""
_GANG_KILL_S = 5.0
_UNAUTHORIZED = Unauthorized.__name__


class Attempt:
    """Its methods never block and may be called from any thread; the work is in `start`'s."""

    def __init__(self, site: Site, allocation: Allocation) -> None:
        self.id = allocation.id
        self.released = threading.Event()
        """Set once its slots are free."""
        self.done = threading.Event()
        """Set once nothing of it is left to do."""
        self.broken_node = ""
        """What the attempt found wrong with the node itself."""
        self.unauthorized = False
        """Whether it ended for want of credentials, which its environment could have had."""
        self._site = site
        self._allocation = allocation
        self._folder = site.folder / allocation.id
        self._log = self._folder / "logs" / LAUNCHER_LOG
        self._control = Control(self._folder, self._log, site.clock, site.settings.grace)
        self._meeting: Meeting | None = None
        self._runs = False
        """Whether its ranks were started."""
        self._left_behind = False
        """Whether it was ended because another node's part of the gang had ended."""
        self._reporting: Reporting | None = None
        self._rehearsal: Rehearsal | None = None
        self._secrets: dict[str, str] = {}
        self._lost = False
        self._hurry = False
        self._thread = threading.Thread(target=self._run, name=allocation.id, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hear(self, allocation: Allocation) -> None:
        """Take in the record as the store has it now."""
        self._allocation = allocation
        if allocation.state is AllocationState.LOST:
            self.lose()
        elif allocation.state is AllocationState.DRAINING and allocation.drain is not None:
            self._control.ask(allocation.drain)
        self._mind_the_gang()
        self._control.news.set()

    def _mind_the_gang(self) -> None:
        """End one's own part where those of other nodes have ended so that it can do no more."""
        if self.released.is_set():
            return
        if is_broken(self._allocation, self._site.node.id, runs=self._runs):
            if not self._left_behind:
                log.info("ending %s: another node's part of it has ended", self.id)
            self._left_behind = True
            self._control.end(_LAST_WORDS_S, _GANG_KILL_S)

    def ask(self, drain: Drain, schedule: Schedule | None = None) -> None:
        """Ask it to leave, for a reason that began here rather than in the store."""
        self._control.ask(drain, schedule)

    def enforce(self, now: float) -> None:
        """Do to its processes what is due at `now` (monotonic)."""
        self._control.enforce(now)

    def lose(self) -> None:
        """The allocation is another's: end its processes at once and write nothing more."""
        self._lost = True
        now = self._site.clock.monotonic()
        drain = Drain(cause=DrainCause.KILL, at=self._site.clock.now())
        self._control.ask(drain, Schedule(now, now, now))

    def hurry(self) -> None:
        """The agent leaves: what of the logs was not shipped is left to the next one."""
        self._hurry = True
        if self._rehearsal is not None:
            self._rehearsal.abandon()
        if self.released.is_set() and self._reporting is not None:
            self._reporting.abandon()

    def publish(self) -> None:
        """Tell the store of a drain that began here.

        Raises:
            BurstError: the store did not take it; call again.
        """
        drain = self._control.drain
        told = self._allocation.state is AllocationState.DRAINING
        if drain is None or told or self._lost or self.released.is_set():
            return
        with contextlib.suppress(Overtaken):
            note_drain(self._site.ws.store, self.id, drain, self._site.clock)

    # --- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self._take_up():
                exit = self._attempt()
                sweep((self.id,), below=self._folder)
                self._release(mask_exit(self._part_of_gang(exit), self._secrets.values()))
        except Exception:
            log.exception("releasing %s", self.id)
        finally:
            self.released.set()
            self.done.set()
            self._site.wake()

    def _take_up(self) -> bool:
        """Whether it is ours to run, or to release."""
        reason = Reason(code="taken", text=f"taken up by {self._site.node.id}")
        store, clock = self._site.ws.store, self._site.clock
        while True:
            try:
                step(store, self.id, AllocationState.STARTING, reason, clock)
                return True
            except Overtaken:
                self.hear(store.get(Allocation, self.id))
                return self._allocation.state is AllocationState.DRAINING
            except (Unreachable, Conflict) as error:
                log.warning("taking up %s: %s", self.id, error.what)
                with contextlib.suppress(Leaving):
                    self._control.check()
                    clock.sleep(_RETRY_S)
                    continue
                return True

    def _attempt(self) -> Exit:
        """Prepare and train; whatever happens becomes the exit."""
        try:
            work = Work.of(self._site, self._allocation)
            self._control.grace = work.config.drain_grace
            preparation = Preparation(self._site, work, self._folder, self._control)
            self._secrets = preparation.secrets
            self._make_folder()
            self._reporting = Reporting(
                self._site, work, self._folder, tuple(self._secrets.values())
            )
            self._reporting.start()
            return self._train(preparation, self._reporting, work)
        except Leaving:
            return Exit(kind=ExitKind.DRAINED)
        except CannotPrepare as error:
            failure = Failure(kind="preparation", message=error.what, traceback=str(error))
            return Exit(kind=ExitKind.CRASHED, failure=failure)
        except (OSError, BurstError) as error:
            log.warning("running %s: %s", self.id, error)
            return self._infrastructure(error)
        except Exception as error:  # a defect in burst, which must not leave the trial hanging
            log.exception("running %s", self.id)
            return self._infrastructure(error)

    def _make_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._log.parent.mkdir(parents=True)

    def _train(self, preparation: Preparation, reporting: Reporting, work: Work) -> Exit:
        start = preparation.prepare()
        network: dict[str, Json] = {}
        if is_gang(self._allocation):
            self._meeting = Meeting(self._site, self._control, lambda: self._allocation)
            start, network = self._meeting.join(start, preparation.spec)
        memory = OomCounter()
        process = self._control.start(start)
        self._runs = True
        try:
            self._say_running(network)
            if preparation.spec.node_rank == 0:
                self._rehearse(work, start)
            reporting.watch(process.pid)
            status = process.wait()
        finally:
            self._control.finish()
        exit = classify(self._ended(status, memory.grew(), work.config.entrypoint))
        self.unauthorized = exit.failure is not None and exit.failure.kind == _UNAUTHORIZED
        return exit

    def _rehearse(self, work: Work, start: Start) -> None:
        if needs_proof(work.trial, losing_pools(self._site.ws.cluster.pools)):
            secrets = self._secrets.values()
            self._rehearsal = Rehearsal(self._site, work.trial.id, self._folder, start, secrets)
            self._rehearsal.start()

    def _say_running(self, network: dict[str, Json]) -> None:
        """Best effort: an unreachable store does not stop the ranks, the lease does."""
        node, clock = self._site.node, self._site.clock
        reason = Reason(code="started", text=f"runs on {node.host or node.id}")
        facts = {"started": clock.now()}
        try:
            step(self._site.ws.store, self.id, AllocationState.RUNNING, reason, clock, **facts)
            if network:
                note_network(self._site.ws.store, self.id, node.id, network, clock)
        except Overtaken:
            self._site.wake()  # asked to drain, or lost: the agent hears which
        except BurstError as error:
            log.warning("noting that %s runs: %s", self.id, error.what)

    def _ended(self, status: int | None, out_of_memory: bool, entrypoint: object) -> Ended:
        control = self._control
        its_own = not control.forced or control.failed_before
        rank, text = failing_log(self._folder / "logs")
        return Ended(
            status=status,
            outcome=Outcome.read(self._folder),
            failure=self._cause(out_of_memory) if its_own else None,
            drain=control.drain,
            forced=control.forced,
            connected=is_connected(self._folder),
            trial_class=names_class(entrypoint),
            log=text,
            log_rank=rank,
            out_of_memory=out_of_memory,
        )

    def _cause(self, out_of_memory: bool) -> Failure | None:
        texts = {rank: tail_of(path) for rank, path in rank_logs(self._folder / "logs").items()}
        alone = len(texts) == 1 and not is_gang(self._allocation)
        found = []
        for rank, (at, each) in failures_left(self._folder).items():
            shown = told(each, texts.get(rank, ""), alone=alone, out_of_memory=out_of_memory)
            found.append((at, shown.model_copy(update={"at": at})))
        return first_cause(found)

    def _part_of_gang(self, exit: Exit) -> Exit:
        """How this node's part ended, for the others to see."""
        allocation, node = self._allocation, self._site.node.id
        if not is_gang(allocation):
            return exit
        if exit.failure is not None:
            at = exit.failure.at or self._site.clock.now()
            where = {"node": node, "at": at}
            return exit.model_copy(update={"failure": exit.failure.model_copy(update=where)})
        forced = exit.kind is ExitKind.DRAINED and not exit.durable
        if forced and self._left_behind and self._control.drain is None:
            return Exit(kind=ExitKind.DRAINED) if never_met(allocation, node) else LEFT_BEHIND
        return exit

    def _infrastructure(self, error: Exception) -> Exit:
        problems = check_machine(self._site.ws.home, self._site.ws.blobs)
        self.broken_node = "; ".join(problems)
        self.unauthorized = isinstance(error, Unauthorized)
        message = error.what if isinstance(error, BurstError) else str(error)
        failure = Failure(kind=type(error).__name__, message=message, traceback=str(error))
        return Exit(kind=ExitKind.INFRASTRUCTURE, failure=failure)

    def _clear_meeting(self) -> None:
        if self._meeting is not None:
            with contextlib.suppress(BurstError):
                self._meeting.clear()

    def _release(self, exit: Exit) -> None:
        settings, clock = self._site.settings, self._site.clock
        reporting = self._reporting
        over = self._lost or exit.kind in (ExitKind.COMPLETED, ExitKind.STOPPED)
        if self._rehearsal is not None and over:
            self._rehearsal.end()  # before retention has its last word
        shipped = reporting is None or reporting.finish(settings.flush_patience)
        if not self._lost:
            until = clock.monotonic() + settings.lease
            store = self._site.ws.store
            release(
                store,
                self.id,
                self._site.node.id,
                exit,
                clock,
                lambda: clock.monotonic() < until,
                self._runs,
            )
        self.released.set()
        self._site.wake()
        self._clear_meeting()
        if self._rehearsal is not None and not over:
            self._rehearsal.finish(0.0 if self._hurry else settings.rehearse_patience)
        if not shipped and reporting is not None and not self._hurry:
            shipped = reporting.finish(settings.keep_shipping)
        if reporting is not None:
            reporting.abandon()
        if shipped:
            shutil.rmtree(self._folder, ignore_errors=True)
