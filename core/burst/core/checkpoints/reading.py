"""The files of a checkpoint, verified, from whichever place that can be reached has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.ahead import Fetch, read_ahead
from burst.core.checkpoints.format.manifest import FileEntry, Manifest
from burst.core.checkpoints.tiers.places import Elsewhere, Tiers
from burst.core.checkpoints.verify import fetch, read
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
        Elsewhere: it lies on the disks of other nodes alone.
        BurstError: a newer burst wrote it.
    """
    if isinstance(checkpoint, Manifest):
        return Reading(checkpoint, partial(fetch, blobs))
    urls = places_near(checkpoint, node)
    if len(urls) == 1:
        found = blobs if urls[0] == blobs.url else open_blobs(urls[0])
        return Reading(read(found, checkpoint), partial(fetch, found))
    tiers = Tiers(
        [Tier(url=url) for url in urls],
        node=node,
        clock=SystemClock(),
        opener=lambda url: blobs if url == blobs.url else open_blobs(url),
    )
    manifest = tiers.find(checkpoint)
    return Reading(manifest, tiers.source(manifest).fetch)


def places_near(checkpoint: Checkpoint, node: str = "") -> list[str]:
    """The blobs from which a checkpoint can be read here, fastest first: those that outlive their
    node, this node's own, and any folder of this machine that has it.

    Raises:
        Elsewhere: if there is none but on the disks of other nodes.
    """
    copies = checkpoint.copies or (Copy(url=checkpoint.url, at=checkpoint.created),)
    near = [
        copy.url
        for copy in copies
        if copy.durable or copy.node == node or _is_here(copy, checkpoint)
    ]
    if near:
        return near
    nodes = ", ".join(dict.fromkeys(copy.node for copy in copies))
    raise Elsewhere(
        f"checkpoint {checkpoint.id} lies on the disk of another node alone",
        why=f"it was saved on {nodes} and not copied to a shared tier",
        mend="wait until it is copied, or call this on that node",
    )


def _is_here(copy: Copy, checkpoint: Checkpoint) -> bool:
    folder = Path(copy.url.removeprefix("file://"))
    return copy.url.startswith("file:///") and (folder / checkpoint.manifest).is_file()
