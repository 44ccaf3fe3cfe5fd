"""The files of a checkpoint, verified, from whichever place that can be reached has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.ahead import Fetch, read_ahead
from burst.core.checkpoints.manifest import FileEntry, Manifest
from burst.core.checkpoints.tiers import Tiers
from burst.core.checkpoints.verify import fetch, home, read
from burst.core.clock import SystemClock
from burst.core.launch import Tier
from burst.core.model import Checkpoint, Copy


@dataclass(frozen=True)
class Reading:
    """A checkpoint that is open for reading."""

    manifest: Manifest
    read: Fetch
    """The verified bytes of a file. Safe from several threads.

    Raises:
        Damaged: no place has it as it was written.
        Unreachable: a place that may have it did not answer.
    """

    def fetch(self, entry: FileEntry) -> memoryview:
        """As `read`, in memory of its own."""
        return self.read(entry, None)

    def in_order(self, entries: Sequence[FileEntry]) -> Iterator[tuple[FileEntry, memoryview]]:
        """The files one after the other, the next few being read meanwhile. Their bytes are there
        until the next one is asked for.

        Raises:
            Damaged, Unreachable: as `read`, when the file's turn comes.
        """
        for entry, job in read_ahead(self.read, entries):
            yield entry, job.result()


def open_checkpoint(blobs: Blobs, checkpoint: Checkpoint | Manifest, *, node: str = "") -> Reading:
    """Find a checkpoint's manifest and the fastest place for its files.

    Args:
        blobs: what to read from where the record names no other place.
        node: the node that this process runs on, whose own disk may have a copy.

    Raises:
        Damaged: its manifest is nowhere as it was written.
        Unreachable: a place that may have it did not answer.
        BurstError: a newer burst wrote it, or it lies on the disks of other nodes alone.
    """
    if isinstance(checkpoint, Manifest):
        return Reading(checkpoint, partial(fetch, blobs))
    near = copies_near(checkpoint, node)
    if not near and len(checkpoint.copies) < 2:
        found = home(blobs, checkpoint)
        return Reading(read(found, checkpoint), partial(fetch, found))
    places = [Tier(url=copy.url) for copy in near]
    tiers = Tiers(places, node=node, clock=SystemClock(), mends=False)
    manifest = tiers.find(checkpoint)
    return Reading(manifest, tiers.source(manifest).fetch)


def copies_near(checkpoint: Checkpoint, node: str = "") -> list[Copy]:
    """The copies that can be read on `node`, fastest first; empty where the record names none."""
    return [copy for copy in checkpoint.copies if copy.durable or copy.node == node]
