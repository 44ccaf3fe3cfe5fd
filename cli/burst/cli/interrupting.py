"""Ctrl-C once: what follows the first is done in peace."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, SIGINT, SIGTERM and SIGHUP (the terminal is closed) are one KeyboardInterrupt, for
    the first of them. The others do nothing, so that what the first one brings about is finished:
    people press Ctrl-C twice. What was ignored before stays so."""
    told = False

    def interrupt(number: int, frame: Any) -> None:
        nonlocal told
        if not told:
            told = True
            raise KeyboardInterrupt

    heard = [each for each in _INTERRUPTS if signal.getsignal(each) is not signal.SIG_IGN]
    # no SIG_IGN for those that do nothing: processes that are started would be born with it
    previous = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
