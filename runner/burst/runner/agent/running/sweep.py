"""Finding the processes of an allocation whatever became of their parents, and ending them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import psutil

from burst.core.launch import ALLOCATION_VARIABLE, LAUNCH_VARIABLE


def marked(allocations: Collection[str], below: Path | None = None) -> Iterator[psutil.Process]:
    """The processes of this user with one of `allocations` in their environment.

    Args:
        below: only those launched from a folder below this one, as a node's are: several nodes of
            a gang may be on one machine.
    """
    root = None if below is None else below.resolve()
    for process in psutil.process_iter():
        try:
            environ = process.environ()
        except (psutil.Error, OSError):
            continue
        if environ.get(ALLOCATION_VARIABLE) not in allocations or process.pid == os.getpid():
            continue
        spec = environ.get(LAUNCH_VARIABLE, "")
        if root is None or Path(spec).resolve().is_relative_to(root):
            yield process


def sweep(allocations: Collection[str], *, below: Path | None = None, seconds: float = 5.0) -> int:
    """Kill every process of `allocations`, and what they start meanwhile; how many there were.

    As `kill_all`. `below`: as `marked`.
    """
    return kill_all(lambda: marked(allocations, below), seconds) if allocations else 0


def kill_all(find: Callable[[], Iterable[psutil.Process]], seconds: float) -> int:
    """Kill what `find` finds, again until it finds none, for `seconds` at most; how many there
    were. A process may start others between being found and being killed."""
    killed: set[tuple[int, float]] = set()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = list(find())
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
