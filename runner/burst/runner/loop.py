"""The runner: reconcile, wait until something changes or is due, and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from burst.core.clock import Clock, SystemClock
from burst.core.errors import BurstError
from burst.core.model import Experiment, Node, Trial
from burst.core.states import ExperimentState, TrialState
from burst.core.store import is_local
from burst.core.store.port import Store
from burst.core.workspace import Workspace
from burst.runner.pools.elsewhere import gone_from_here, left_to_the_function
from burst.runner.pools.open import open_pools
from burst.runner.pools.port import Gone, Pool
from burst.runner.reconcile import make_context, reconcile
from burst.runner.reconcile.reclaims import hear_notice

log = logging.getLogger(__name__)

POLL_S = 0.1
"""Between two looks at what has changed, in a store on this machine."""
POLL_REMOTE_S = 2.0
"""The same, where each look is a request that is paid for."""
LONGEST_WAIT_S = 15.0
_FIRST_BACKOFF_S = 0.5
_CLOCK = SystemClock()


class Runner:
    """One caller of reconcile. Any number of them may work on the same store at once."""

    def __init__(
        self,
        ws: Workspace,
        clock: Clock = _CLOCK,
        pools: Mapping[str, Pool] | None = None,
        elsewhere: frozenset[str] | None = None,
        gone: Gone | None = None,
    ) -> None:
        """
        Args:
            pools: by default the cluster's, as they are seen from here.
            elsewhere: names of those that another runner acts for; by default those that a
                cluster leaves to the function in its account.
            gone: finds what is of no pool any more; by default, where the pools are the cluster's,
                in the account, unless that is left to the function.
        """
        self._ws = ws
        self._clock = clock
        known = open_pools(ws) if pools is None else pools
        away = left_to_the_function(ws.cluster) if elsewhere is None else elsewhere
        if pools is None and gone is None:
            gone = gone_from_here(ws)
        self._context = make_context(ws, clock, known, away, gone)
        self._stopped = threading.Event()
        self._poll = POLL_S if is_local(ws.store) else POLL_REMOTE_S

    @property
    def workspace(self) -> Workspace:
        return self._ws

    @property
    def strays(self) -> int:
        """Machines that no record answered for when the pools were last swept."""
        return sum(self._context.strays.values())

    def run(self, until: Callable[[], bool] | None = None) -> None:
        """Reconcile until `until()` holds (asked after every pass) or `stop` is called.

        Survives whatever a pass raises: it is logged and tried again, ever more slowly, and no
        work is ended because of it.
        """
        backoff = _FIRST_BACKOFF_S
        while not self._stopped.is_set():
            try:
                cursor = self._newest_cursor()
                due = reconcile(self._context)
                if until is not None and until():
                    return
                backoff = _FIRST_BACKOFF_S
                self._wait(cursor, LONGEST_WAIT_S if due is None else min(due, LONGEST_WAIT_S))
            except Exception as error:
                self._say(error)
                self._clock.sleep(backoff)
                backoff = min(2 * backoff, LONGEST_WAIT_S)

    def run_for(self, seconds: float) -> int:
        """Reconcile for at most about `seconds`, or until nothing is left that a runner could
        bring forward; returns how many passes were made.

        Raises:
            BurstError: a pass failed as a whole; any later one may go on.
        """
        until, passes = self._clock.monotonic() + seconds, 0
        while True:
            cursor = self._newest_cursor()
            due = reconcile(self._context)
            passes += 1
            left = until - self._clock.monotonic()
            if left <= 0 or self._stopped.is_set() or (due != 0.0 and is_idle(self._ws.store)):
                return passes
            if due != 0.0:
                self._wait(cursor, min(left, LONGEST_WAIT_S if due is None else due))

    def hear_notice(self, instance: str, reclaim_at: float) -> None:
        """The cloud says that a machine will be taken away; see `reconcile.reclaims`."""
        hear_notice(self._context, instance, reclaim_at)

    def step(self) -> float | None:
        """One pass; see `burst.runner.reconcile.reconcile`."""
        return reconcile(self._context)

    def stop(self) -> None:
        """Leave after the present pass. Safe from a signal handler and from any thread."""
        self._stopped.set()

    def _wait(self, cursor: str, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while not self._stopped.is_set():
            left = until - self._clock.monotonic()
            if left <= 0 or self._newest_cursor() != cursor:
                return
            self._clock.sleep(min(self._poll, left))

    def _newest_cursor(self) -> str:
        try:
            return self._ws.store.newest_cursor()
        except BurstError:
            self._context.observer.begin_anew()
            raise

    def _say(self, error: Exception) -> None:
        if isinstance(error, BurstError):
            log.warning("%s", error)
        else:
            log.exception("a pass failed; it is tried again")


def is_idle(store: Store) -> bool:
    """Whether there is nothing that a runner could bring forward.

    What is paused, by itself or with its experiment, waits for a person and not for a runner.
    Nodes that still run are work: they are told to leave when they have been idle.
    """
    paused = set()
    for experiment in store.live(Experiment):
        if experiment.state is ExperimentState.STOPPING:
            return False
        if experiment.state is ExperimentState.PAUSED:
            paused.add(experiment.id)
        elif experiment.search.get("inbox"):
            return False
    for trial in store.live(Trial):
        held = trial.experiment in paused or trial.wanted is TrialState.PAUSED
        if trial.state is not TrialState.WAITING or not held:
            return False
    return not store.live(Node)
