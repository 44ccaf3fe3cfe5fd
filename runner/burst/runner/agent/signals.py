"""Signals, handled once: here, and in no other process of burst's on this node."""

from __future__ import annotations

import signal
import threading


class Signals:
    """How often the agent was asked to end: once drains, twice ends what runs within seconds."""

    def __init__(self) -> None:
        self.count = 0
        self.wake = threading.Event()
        """Set by a signal, and by whoever wants the agent to look again at once."""

    def install(self) -> None:
        """Hear SIGTERM and SIGINT from now on, in a program's main thread; elsewhere nothing."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._hear)

    def _hear(self, number: int, frame: object) -> None:
        self.count += 1
        self.wake.set()
