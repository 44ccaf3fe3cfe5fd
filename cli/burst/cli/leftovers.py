"""Processes on this machine whose allocation is over."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil

from burst.core.launch import ALLOCATION_VARIABLE
from burst.core.model import Allocation
from burst.core.store.port import Store


def leftover_processes(store: Store) -> list[int]:
    """The ids of this user's processes that carry the mark of an allocation that is over.

    A mark that this store does not know belongs to another store, and is none of its business.
    """
    left = []
    for pid, mark in _marked():
        allocation = store.find(Allocation, mark)
        if allocation is not None and not allocation.live:
            left.append(pid)
    return sorted(left)


def _marked() -> Iterator[tuple[int, str]]:
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(ALLOCATION_VARIABLE)
        except (psutil.Error, OSError):
            continue
        if mark and process.pid != os.getpid():
            yield process.pid, mark
