"""A rank as a process: where its output goes, whom it dies with, and what SIGTERM means to it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, however that ends (Linux only)."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def write_output_to(path: Path) -> None:
    """Send stdout and stderr, of this process and of all it starts, to the end of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]


class Terminated:
    """Whether this process was asked to end by SIGTERM, which means: drain.

    A thread hears the signal too, because the main one may be inside a collective that never
    returns: if a rank of the gang has failed by then, there is nothing to wait for.
    """

    def __init__(self, hopeless: Callable[[], bool]) -> None:
        """`hopeless()` tells, at a SIGTERM, whether the gang has failed."""
        self.asked = False
        self._hopeless = hopeless
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        signal.signal(signal.SIGTERM, self._hear)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="burst-signals", daemon=True).start()
        os.register_at_fork(after_in_child=_forget)

    def _hear(self, *_: object) -> None:
        self.asked = True

    def _watch(self) -> None:
        while heard := os.read(self._read, 1):
            if heard[0] == signal.SIGTERM and self._hopeless():
                os._exit(1)


def _forget() -> None:
    """Children (loader workers) end at SIGTERM like any process."""
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
