"""The files of a checkpoint, verified, from whichever place that can be reached has them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.manifest import FileEntry, Manifest
from burst.core.checkpoints.tiers import Tiers
from burst.core.checkpoints.verify import fetch, home, read
from burst.core.clock import SystemClock
from burst.core.launch import Tier
from burst.core.model import Checkpoint

THREADS = 4
"""Files that are read at a time, and so, in files, the memory that it takes."""


@dataclass(frozen=True)
class Reading:
    """A checkpoint that is open for reading."""

    manifest: Manifest
    fetch: Callable[[FileEntry], memoryview]
    """The verified bytes of a file. Safe from several threads.

    Raises:
        Damaged: no place has it as it was written.
        Unreachable: a place that may have it did not answer.
    """

    def in_order(self, entries: Sequence[FileEntry]) -> Iterator[tuple[FileEntry, memoryview]]:
        """The files one after the other, the next few being read meanwhile.

        Raises:
            Damaged, Unreachable: as `fetch`, when the file's turn comes.
        """
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="burst-read")
        ahead: deque[tuple[FileEntry, Future[memoryview]]] = deque()
        try:
            for entry in entries:
                ahead.append((entry, threads.submit(self.fetch, entry)))
                if len(ahead) == THREADS:
                    first, job = ahead.popleft()
                    yield first, job.result()
            while ahead:
                first, job = ahead.popleft()
                yield first, job.result()
        finally:
            threads.shutdown(cancel_futures=True)


def open_checkpoint(blobs: Blobs, checkpoint: Checkpoint | Manifest) -> Reading:
    """Find a checkpoint's manifest and the fastest place for its files.

    Args:
        blobs: what to read from where the record names no other place.

    Raises:
        Damaged: its manifest is nowhere as it was written.
        Unreachable: a place that may have it did not answer.
        BurstError: a newer burst wrote it, or it lies on the disks of other nodes alone.
    """
    if isinstance(checkpoint, Manifest):
        return Reading(checkpoint, lambda entry: fetch(blobs, entry))
    if len(checkpoint.copies) < 2:
        found = home(blobs, checkpoint)
        return Reading(read(found, checkpoint), lambda entry: fetch(found, entry))
    places = [Tier(url=copy.url) for copy in checkpoint.copies if copy.durable]
    tiers = Tiers(places, node="", clock=SystemClock())
    manifest = tiers.find(checkpoint)
    return Reading(manifest, tiers.source(manifest).fetch)
