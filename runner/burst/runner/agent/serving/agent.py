"""The agent's two loops: one hears the store, one enforces deadlines and never does I/O."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping

from burst.core.errors import BurstError, NotFound
from burst.core.model import Allocation, Drain, DrainCause, Exit, ExitKind, Failure, Node
from burst.core.states import AllocationState, Reason
from burst.core.store import is_local
from burst.runner.agent.attempts.attempt import Attempt
from burst.runner.agent.attempts.releasing import release
from burst.runner.agent.ends.gang import is_over, takes_up
from burst.runner.agent.host import Host, Reclaim
from burst.runner.agent.running.schedule import Schedule, Step
from burst.runner.agent.serving.lease import Term
from burst.runner.agent.serving.registration import (
    begin_leaving,
    note_notice,
    note_problem,
    note_rebalance,
    set_idle_since,
)
from burst.runner.agent.serving.stay import Stay
from burst.runner.agent.serving.tenure import Tenure
from burst.runner.agent.signals import Signals
from burst.runner.agent.site import Site

log = logging.getLogger(__name__)

_ENFORCE_S = 0.1
_FAST_KILL_S = 5.0
_LIST_EVERY_S = 15.0
"""Between two lists of all that a pool runs, where each is paid for; see `_mine`."""


class Agent:
    """Runs the allocations of one node until it has a reason to leave."""

    def __init__(
        self, site: Site, term: Term, stay: Stay, signals: Signals, host: Host | None = None
    ) -> None:
        self._site = site
        self._term = term
        self._tenure = Tenure(site, stay)
        self._signals = signals
        self._host = host or Host()
        self._attempts: dict[str, Attempt] = {}
        self._leaving: Reason | None = None
        self._draining_said = False
        self._stop = threading.Event()
        self._heard: Reclaim | None = None
        """The notice that the store knows of."""
        self._rebalance_said = False
        self._node_read = -math.inf
        self._node_version = 0
        self._listed: tuple[int, float] = (-1, -math.inf)
        """The node's version when its pool's allocations were listed last, and the time."""
        self._idle_said: bool | None = None

    # --- the loop that hears ------------------------------------------------------------------

    def run(self) -> Reason:
        """Work until there is a reason to leave and nothing runs any more; returns the reason."""
        enforcer = threading.Thread(target=self._enforce_all, name="enforcer", daemon=True)
        enforcer.start()
        try:
            while True:
                self._signals.wake.clear()
                self._look()
                if self._leaving is not None and not self._attempts and self._said_it:
                    return self._leaving
                self._signals.wake.wait(self._poll())
        finally:
            self._stop.set()
            enforcer.join()

    @property
    def _busy(self) -> bool:
        return any(not attempt.released.is_set() for attempt in self._attempts.values())

    @property
    def _said_it(self) -> bool:
        """Whether the store knows that this node takes no more, or cannot be told."""
        return self._draining_said or self._term.over(self._site.clock.monotonic())

    def _poll(self) -> float:
        settings = self._site.settings
        return settings.poll if is_local(self._site.ws.store) else settings.poll_remote

    def _look(self) -> None:
        if self._host.reclaim is not None:
            self._leave(Reason(code="notice", text=self._host.reclaim.text))
        try:
            self._say_notice()
            self._hear_node()
            self._hear_allocations()
            self._say()
        except BurstError as error:
            log.warning("looking at the store: %s", error.what)
        self._bury()
        self._consider_leaving()

    def _mine(self, listed: bool) -> Mapping[str, Allocation]:
        """The allocations of this node: all of them where `listed`, else what runs here already.

        A hundred agents that each list what their pool runs read ten thousand records a second.
        """
        store, node = self._site.ws.store, self._site.node
        if not listed:
            running = [id for id, each in self._attempts.items() if not each.released.is_set()]
            return store.find_many(Allocation, running) if running else {}
        return {
            allocation.id: allocation
            for allocation in store.live(Allocation, node.pool)
            if any(share.node == node.id for share in allocation.shares)
        }

    def _must_list(self, now: float) -> bool:
        """Whether something may have come that is not known here. Whoever gives this node an
        allocation writes its record in the same commit."""
        version, at = self._listed
        return (
            is_local(self._site.ws.store)
            or self._leaving is not None
            or version != self._node_version
            or now - at >= _LIST_EVERY_S
        )

    def _hear_allocations(self) -> None:
        now, version = self._site.clock.monotonic(), self._node_version
        listed = self._must_list(now)
        mine = self._mine(listed)
        for id, allocation in mine.items():
            known = self._attempts.get(id)
            if known is not None:
                known.hear(allocation)
            else:
                self._meet(allocation)
        for id, attempt in self._attempts.items():
            if id not in mine and not attempt.released.is_set():
                self._look_closer(attempt)
        if listed:
            self._listed = version, now

    def _look_closer(self, attempt: Attempt) -> None:
        """It is not live any more, says an index that may lag: ask the record itself."""
        try:
            attempt.hear(self._site.ws.store.get(Allocation, attempt.id))
        except NotFound:
            attempt.lose()

    def _meet(self, allocation: Allocation) -> None:
        """An allocation that this process does not run: take it up, or give it back."""
        node = self._site.node.id
        if allocation.state is AllocationState.REQUESTED or is_over(allocation, node):
            return
        if takes_up(allocation, node) and self._leaving is None:
            attempt = Attempt(self._site, allocation)
            self._attempts[allocation.id] = attempt
            attempt.start()
            return
        # an index may lag behind our own release of it
        current = self._site.ws.store.get(Allocation, allocation.id)
        exit = exit_of_stranger(current, node)
        release(self._site.ws.store, current.id, node, exit, self._site.clock, _no)

    def _hear_node(self) -> None:
        now = self._site.clock.monotonic()
        if now - self._node_read < self._site.settings.node_every:
            return
        self._node_read = now
        node = self._site.ws.store.find(Node, self._site.node.id)
        self._node_version = node.version if node is not None else 0
        if node is None or node.gone is not None:
            self._draining_said = True
            self._leave(Reason(code="gone", text="the node was given up"))
        elif node.draining is not None:
            self._draining_said = True
            self._leave(Reason(code="told", text="the node was told to leave"))

    def _say_notice(self) -> None:
        """Before all else: whoever hears it has seconds to see to a replacement."""
        site, reclaim = self._site, self._host.reclaim
        if reclaim is not None and reclaim != self._heard:
            note_notice(site.ws.store, site.node.id, reclaim, site.clock)
            self._heard = reclaim
            self._draining_said = True
        if self._host.rebalance is not None and not self._rebalance_said:
            note_rebalance(site.ws.store, site.node.id, self._host.rebalance, site.clock)
            self._rebalance_said = True

    def _say(self) -> None:
        """Tell the store what it does not know yet: drains begun here, idleness, leaving."""
        site = self._site
        for attempt in self._attempts.values():
            attempt.publish()
            if attempt.broken_node:
                note_problem(site.ws.store, site.node.id, attempt.broken_node, site.clock)
        idle = not self._busy
        if idle is not self._idle_said:
            since = site.clock.now() if idle else None
            set_idle_since(site.ws.store, site.node.id, since, site.clock)
            self._idle_said = idle
        if self._leaving is not None and not self._draining_said:
            begin_leaving(site.ws.store, site.node.id, self._leaving, site.clock)
            self._draining_said = True
            self._hear_allocations()  # what was assigned between the last look and now

    def _bury(self) -> None:
        for id, attempt in list(self._attempts.items()):
            if attempt.released.is_set() and self._leaving is not None:
                attempt.hurry()
            elif attempt.released.is_set():
                self._tenure.note_end(id)
            if not attempt.done.is_set():
                continue
            if attempt.broken_node:
                self._leave(Reason(code="unfit", text=attempt.broken_node))
            self._tenure.unauthorized |= attempt.unauthorized
            del self._attempts[id]

    def _consider_leaving(self) -> None:
        over = self._term.over(self._site.clock.monotonic())
        lost = self._term.taken_away or "the lease could not be renewed"
        reason = self._tenure.over(
            busy=self._busy, signalled=self._signals.count > 0, lease_lost=lost if over else ""
        )
        if reason is not None:
            self._leave(reason)

    def _leave(self, reason: Reason) -> None:
        if self._leaving is None:
            log.info("leaving: %s", reason)
            self._leaving = reason
            self._signals.wake.set()

    # --- the loop that enforces ---------------------------------------------------------------

    def _enforce_all(self) -> None:
        while not self._stop.wait(_ENFORCE_S):
            try:
                self.enforce(self._site.clock.monotonic())
            except Exception:  # whatever it is, the next deadline counts
                log.exception("enforcing deadlines")

    def enforce(self, now: float) -> None:
        """Ask, terminate and kill as deadlines, signals and the lease demand. No I/O."""
        lease = self._term.schedule(now)
        for attempt in list(self._attempts.values()):
            if lease.due(now) >= Step.ASK:
                attempt.ask(self._drain(DrainCause.LEASE), lease)
            elif self._host.reclaim is not None:
                attempt.ask(self._host.reclaim.drain)
            elif self._leaving is not None or self._signals.count:
                attempt.ask(self._drain(DrainCause.NODE))
            if self._signals.count > 1:
                attempt.ask(self._drain(DrainCause.NODE), _fast(now))
            attempt.enforce(now)

    def _drain(self, cause: DrainCause) -> Drain:
        return Drain(cause=cause, at=self._site.clock.now())


def _fast(now: float) -> Schedule:
    return Schedule(ask=now, terminate=now, kill=now + _FAST_KILL_S)


def _no() -> bool:
    return False


def exit_of_stranger(allocation: Allocation, node: str) -> Exit:
    """How to release what an allocation holds on this node, where nobody here runs it.

    What was not begun yet only goes back to the queue; what an earlier agent had begun ended with
    that agent.
    """
    if allocation.started is None and (
        allocation.state in (AllocationState.ASSIGNED, AllocationState.DRAINING)
        or takes_up(allocation, node)
    ):
        return Exit(kind=ExitKind.DRAINED)
    failure = Failure(kind="agent", message="the agent that ran it ended, and its ranks with it")
    return Exit(kind=ExitKind.INFRASTRUCTURE, failure=failure)
