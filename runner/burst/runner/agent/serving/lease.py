"""The right of an agent to act, and how it gives that up by itself.

Two threads share one `Term`: the keeper renews and may block on the store for as long as the store
likes; whoever enforces only looks at the clock. So a store that hangs cannot keep a lease alive.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable

from burst.core.clock import Clock
from burst.core.errors import BurstError, Conflict, Fenced, Refused
from burst.core.model import Lease
from burst.core.retrying import patience
from burst.core.store import Store
from burst.core.store.port import Put
from burst.runner.agent.running.schedule import Schedule, at_lease_end

log = logging.getLogger(__name__)


class Term:
    """How long the lease still holds, counted from before the last renewal that succeeded."""

    def __init__(self, length: float, began: float) -> None:
        self.length = length
        self.taken_away = ""
        """Why the lease was lost before its time; empty while it was not."""
        self._began = began

    @property
    def margin(self) -> float:
        """Seconds before the end at which ranks are asked to leave."""
        return min(10.0, self.length / 3)

    @property
    def end(self) -> float:
        return self._began + self.length

    def renewed(self, began: float) -> None:
        self._began = max(self._began, began)

    def lose(self, why: str) -> None:
        self.taken_away = self.taken_away or why

    def schedule(self, now: float) -> Schedule:
        """What the lease demands of everything that runs; all steps are now where it was lost."""
        if self.taken_away:
            return Schedule(ask=now, terminate=now, kill=now)
        return at_lease_end(self.end, margin=self.margin)

    def over(self, now: float) -> bool:
        return bool(self.taken_away) or now >= self.end - self.margin


def take(store: Store, node: str, length: float, *, proven_dead: bool, clock: Clock) -> Lease:
    """The lease of `node`, newly written by us.

    An earlier agent's lease is taken over at once where its death is proven (its lock on this
    machine is free), else after it was seen unchanged for its whole length.

    Raises:
        Refused: another agent holds it, or it was revoked.
        Unreachable: the store did not answer.
    """
    found = store.find(Lease, node)
    if found is not None and found.revoked:
        raise _revoked(node)
    if found is not None and not proven_dead:
        found = _wait_for_its_end(store, found, clock)
    version = found.version if found else 0
    lease = Lease(id=node, version=version, length=length, holder=uuid.uuid4().hex)
    try:
        store.commit(Put(lease))
    except Conflict as error:
        raise _held(node) from error
    return lease.model_copy(update={"version": lease.version + 1})


def _wait_for_its_end(store: Store, seen: Lease, clock: Clock) -> Lease | None:
    until = clock.monotonic() + seen.length
    log.info("waiting %.0f s for the lease of an earlier agent to end", seen.length)
    while clock.monotonic() < until:
        clock.sleep(min(1.0, seen.length / 10))
        found = store.find(Lease, seen.id)
        if found is None or found.version != seen.version:
            raise _held(seen.id)
    return seen


def _why_lost(found: Lease | None) -> str:
    if found is None:
        return "the lease was removed"
    return "the lease was revoked" if found.revoked else "another agent took the node over"


def _held(node: str) -> Refused:
    return Refused(
        f"node {node} already has an agent",
        why="its lease is being renewed by another process",
        mend="end that agent, or start one for another node",
    )


def _revoked(node: str) -> Refused:
    return Refused(
        f"node {node} was given up",
        why="its lease was revoked: its agent had been silent for too long",
        mend="start an agent without --node; it joins as a new node",
    )


class Keeper:
    """Renews a lease in a thread of its own, three times in its length."""

    def __init__(
        self,
        store: Store,
        lease: Lease,
        term: Term,
        clock: Clock,
        changed: Callable[[], None],
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        """From the keeper's thread, `changed` is called when the lease is lost, and `renewed`
        after every renewal."""
        self._store = store
        self._lease = lease
        self._term = term
        self._clock = clock
        self._changed = changed
        self._renewed = renewed
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def lease(self) -> Lease:
        """The lease as last written, for deleting it."""
        return self._lease

    def start(self) -> None:
        self._thread.start()

    def close(self, seconds: float = 5.0) -> None:
        """Stop renewing."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def renew(self) -> bool:
        """Try once; whether the lease is certainly renewed. A lost one is noted in the term.

        A store that is silent is given up early enough to be asked again while the lease holds.
        """
        began = self._clock.monotonic()
        try:
            with patience(self._term.length / 6):
                self._store.commit(Put(self._lease))
        except (Conflict, Fenced):
            return self._look_again()
        except BurstError as error:
            log.warning("renewing the lease of %s: %s", self._lease.id, error.what)
            return False
        self._lease = self._lease.model_copy(update={"version": self._lease.version + 1})
        self._term.renewed(began)
        self._renewed()
        return True

    def _look_again(self) -> bool:
        """After a conflict: was it our own write, whose answer was lost, or someone else's?"""
        try:
            with patience(self._term.length / 6):
                found = self._store.find(Lease, self._lease.id)
        except BurstError as error:
            log.warning("reading the lease of %s: %s", self._lease.id, error.what)
            return False
        if found is None or found.revoked or found.holder != self._lease.holder:
            self._term.lose(_why_lost(found))
            self._changed()
            return False
        self._lease = found
        return False

    def _run(self) -> None:
        wait = self._term.length / 3
        while not self._closed.wait(wait) and not self._term.taken_away:
            wait = self._term.length / 3 if self.renew() else self._term.length / 15
