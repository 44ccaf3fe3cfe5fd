"""How long one agent has been what: without work, at its age, kept after a failure."""

from __future__ import annotations

import logging
import math

from burst.core.errors import BurstError
from burst.core.model import Allocation, ExitKind, Node
from burst.core.states import NodeState, Reason
from burst.runner.agent.serving.registration import keep
from burst.runner.agent.serving.stay import Situation, Stay, reason_to_leave
from burst.runner.agent.site import Site

log = logging.getLogger(__name__)


class Tenure:
    """An agent's time on its node, and whether that is over."""

    def __init__(self, site: Site, stay: Stay) -> None:
        self.unauthorized = False
        """Whether work has failed for want of credentials in the agent's environment."""
        self._site = site
        self._stay = stay
        now = site.clock.monotonic()
        self._busy_until = now
        self._born = now - max(0.0, site.clock.now() - (site.node.launched or math.inf))
        self._kept_since: float | None = None
        self._judged: set[str] = set()
        self._wanted_at: float | None = None
        """The newest word of the plan's that was counted, that the node is to stay."""

    def note_end(self, allocation: str) -> None:
        """It was released. The node of one that failed stays for a while without new work, to be
        looked at, if its pool says so. Idempotent."""
        site, seconds = self._site, self._stay.keep_on_error
        if not seconds or allocation in self._judged:
            return
        try:
            found = site.ws.store.get(Allocation, allocation)
            exit = found.ends.get(site.node.id) or found.exit
            if exit is not None and exit.kind is ExitKind.CRASHED:
                keep(site.ws.store, site.node.id, allocation, seconds, site.clock)
                self._kept_since = site.clock.monotonic()
            self._judged.add(allocation)
        except BurstError as error:
            log.warning("keeping the machine of %s: %s", allocation, error.what)

    def over(self, *, busy: bool, signalled: bool, lease_lost: str) -> Reason | None:
        """Why the agent has to leave now; None where it stays."""
        now = self._site.clock.monotonic()
        if busy:
            self._busy_until = now
        situation = Situation(
            busy=busy,
            without_work=now - self._busy_until,
            age=now - self._born,
            signalled=signalled,
            lease_lost=lease_lost,
            unauthorized=self.unauthorized,
            kept_for=None if self._kept_since is None else now - self._kept_since,
        )
        reason = reason_to_leave(self._stay, situation)
        if reason is None or reason.code != "idle" or self.unauthorized:
            return reason
        if self._is_wanted() or self._is_of_the_minimum():
            self._busy_until = now  # looked at again only when that long is over
            return None
        return reason

    def _is_wanted(self) -> bool:
        """Whether the plan has said anew that the node is to stay, for somebody who waits."""
        site = self._site
        try:
            found = site.ws.store.find(Node, site.node.id)
        except BurstError as error:
            log.warning("looking whether the node is wanted: %s", error.what)
            return True  # what cannot be asked ends nothing; the lease ends what has to end
        if found is None or found.wanted_at is None or found.wanted_at == self._wanted_at:
            return False
        self._wanted_at = found.wanted_at
        return True

    def _is_of_the_minimum(self) -> bool:
        """Whether the node is of those that the pool always has: the oldest ones."""
        site = self._site
        if not self._stay.min_nodes:
            return False
        try:
            found = site.ws.store.live(Node, site.node.pool)
        except BurstError as error:
            log.warning("looking for other nodes: %s", error.what)
            return True
        ready = [node.id for node in found if node.state is NodeState.READY]
        return site.node.id in sorted(ready)[: self._stay.min_nodes]
