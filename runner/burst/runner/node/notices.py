"""Hearing within seconds that the machine will be taken away, whatever the store does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from burst.core.clock import Clock
from burst.core.errors import BurstError
from burst.runner.agent.host import Reclaim
from burst.runner.node.imds import Imds, Warned

log = logging.getLogger(__name__)

EVERY_S = 2.0


def reclaim_of(warned: Warned, now: float) -> Reclaim:
    """What a notice, heard at `now`, means for what runs. Pure.

    The deadline is by this machine's clock, and so is counted from the seconds that were left.
    """
    text = f"the machine will be taken away in {warned.left:.0f} s ({warned.action})"
    return Reclaim.told(heard=now, at=warned.at, left=warned.left, text=text)


class Watcher:
    """Asks the metadata service every two seconds, in a thread of its own."""

    def __init__(self, imds: Imds, clock: Clock, changed: Callable[[], None]) -> None:
        """`changed` is called, from the watcher's thread, when something was heard."""
        self.reclaim: Reclaim | None = None
        self.rebalance: float | None = None
        self._imds = imds
        self._clock = clock
        self._changed = changed
        self._silent = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notices", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, seconds: float = 5.0) -> None:
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def look(self) -> None:
        """Ask once. A service that does not answer has given no notice."""
        try:
            self._hear()
        except BurstError as error:
            if not self._silent:
                log.warning("asking for notices: %s", error)
            self._silent = True
        else:
            self._silent = False

    def _hear(self) -> None:
        warned = self._imds.reclaim()
        if warned is not None and self._is_news(warned):
            self.reclaim = reclaim_of(warned, self._clock.now())
            log.warning("%s", self.reclaim.text)
            self._changed()
        rebalance = self._imds.rebalance()
        if rebalance is not None and self.rebalance is None:
            self.rebalance = rebalance
            log.info("it is recommended to move away from this machine")
            self._changed()

    def _is_news(self, warned: Warned) -> bool:
        """A notice is never taken back; one that leaves less time replaces it."""
        return self.reclaim is None or warned.at < self.reclaim.at

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except Exception:  # whatever it is, the next notice counts
                log.exception("asking for notices")
            if self._closed.wait(EVERY_S):
                return
