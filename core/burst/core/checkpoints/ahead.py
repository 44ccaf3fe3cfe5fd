"""Files of a checkpoint one after the other, the next few being read and hashed meanwhile."""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from burst.core.checkpoints.format.manifest import FileEntry

THREADS = 4
"""Files that are in memory at a time."""

Fetch = Callable[[FileEntry, memoryview | None], memoryview]
"""The verified bytes of a file, in the memory that is given if it is large enough."""


def read_ahead(
    fetch: Fetch, entries: Sequence[FileEntry]
) -> Iterator[tuple[FileEntry, Future[memoryview]]]:
    """The files in order, each with a job whose `result` is what `fetch` returned or raised.

    What it returned is there until the next one is asked for: the memory is used again.
    """
    ahead: deque[tuple[FileEntry, memoryview, Future[memoryview]]] = deque()
    free: list[memoryview] = []
    waiting = deque(entries)
    size = max((entry.size for entry in entries), default=0)
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="burst-read")
    try:
        while waiting or ahead:
            while waiting and len(ahead) < THREADS:
                entry = waiting.popleft()
                buffer = free.pop() if free else memoryview(_pages(size))
                ahead.append((entry, buffer, threads.submit(fetch, entry, buffer)))
            entry, buffer, job = ahead.popleft()
            yield entry, job
            free.append(buffer)
    finally:
        threads.shutdown(cancel_futures=True)


def _pages(size: int) -> mmap.mmap:
    """Memory on a page boundary, with room for a page more."""
    return mmap.mmap(-1, (size // mmap.PAGESIZE + 2) * mmap.PAGESIZE)
