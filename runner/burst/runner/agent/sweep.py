"""Finding the processes of an allocation whatever became of their parents, and ending them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator

import psutil

from burst.core.launch import ALLOCATION_VARIABLE


def marked(allocations: Collection[str]) -> Iterator[psutil.Process]:
    """The processes of this user with one of `allocations` in their environment."""
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(ALLOCATION_VARIABLE)
        except (psutil.Error, OSError):
            continue
        if mark in allocations and process.pid != os.getpid():
            yield process


def sweep(allocations: Collection[str], *, seconds: float = 5.0) -> int:
    """Kill every process of `allocations`, and what they start meanwhile; how many there were.

    Looks again until it finds none, for `seconds` at most.
    """
    killed: set[tuple[int, float]] = set()
    until = time.monotonic() + seconds
    while allocations and time.monotonic() < until:
        found = list(marked(allocations))
        if not found:
            break
        for process in found:
            try:
                killed.add((process.pid, process.create_time()))
                process.kill()
            except psutil.Error:
                continue
        psutil.wait_procs(found, timeout=0.2)
    return len(killed)
