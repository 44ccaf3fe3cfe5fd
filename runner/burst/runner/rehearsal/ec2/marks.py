"""Finding every process of a machine by a mark in its environment, whatever became of its parents.

A machine's processes are below one guard, which ends them all. This finds them too where somebody
killed the guard.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil

from burst.runner.agent.running.sweep import kill_all

MARK = "BURST_REHEARSAL_MACHINE"
"""In the environment of all that runs on a machine: the folder that is its disk. Nothing that runs
there reads it."""


def marked(prefix: str) -> Iterator[psutil.Process]:
    """The processes of this user whose mark is `prefix`, or a folder in it."""
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARK, "")
        except (psutil.Error, OSError):
            continue
        inside = mark == prefix or mark.startswith(prefix.rstrip("/") + "/")
        if inside and process.pid != os.getpid():
            yield process


def sweep(prefix: str, *, seconds: float = 10.0) -> int:
    """Kill the processes marked with `prefix` until there are none; how many there were."""
    return kill_all(lambda: marked(prefix), seconds)
