"""Is a checkpoint what was written? Every file's size and SHA-256, without torch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.ahead import read_ahead
from burst.core.checkpoints.format.manifest import Damaged, FileEntry, Manifest
from burst.core.errors import NotFound
from burst.core.model import Checkpoint

Buffer = bytearray | memoryview
Progress = Callable[[int, int], None]
"""Called with the bytes done so far, and with all there are."""


@dataclass(frozen=True)
class Problem:
    key: str
    text: str
    place: str = ""
    """The URL of the blobs, where several hold the checkpoint."""
    entry: FileEntry | None = None
    """The file whose bytes are not what was written, if that is it."""


@dataclass(frozen=True)
class Report:
    """What a verification has read, and what was wrong with it."""

    checkpoint: str
    files: int
    """Files looked at, the manifest included."""
    size: int
    """Bytes that they hold."""
    problems: tuple[Problem, ...]
    lost: bool = True
    """With problems: whether no place has intact what they are about."""

    @property
    def good(self) -> bool:
        return not self.problems


def verify(
    blobs: Blobs,
    checkpoint: Checkpoint | Manifest,
    progress: Progress | None = None,
) -> Report:
    """Read every file of a checkpoint. Changes nothing, and does not stop at the first problem.

    Args:
        progress: called with the bytes read so far, and with all there are.

    Raises:
        Unreachable: if the blobs did not answer; that says nothing about the checkpoint.
        BurstError: if a newer burst wrote it.
    """
    blobs = home(blobs, checkpoint)
    try:
        manifest = checkpoint if isinstance(checkpoint, Manifest) else read(blobs, checkpoint)
    except Damaged as error:
        key = checkpoint.manifest if isinstance(checkpoint, Checkpoint) else ""
        return Report(checkpoint.id, 1, 0, (Problem(key, in_words(error)),))
    problems = []
    size = 0
    for entry, job in read_ahead(partial(fetch, blobs), manifest.files):
        try:
            job.result()
        except Damaged as error:
            problems.append(Problem(entry.key, in_words(error)))
        size += entry.size
        if progress:
            progress(size, manifest.size)
    return Report(manifest.id, 1 + len(manifest.files), size, tuple(problems))


def home(blobs: Blobs, checkpoint: Checkpoint | Manifest) -> Blobs:
    """The blobs that hold a checkpoint: `blobs`, unless its record names others."""
    if isinstance(checkpoint, Manifest) or checkpoint.url == blobs.url:
        return blobs
    return open_blobs(checkpoint.url)


def read(blobs: Blobs, record: Checkpoint) -> Manifest:
    """The manifest of a checkpoint.

    Raises:
        Damaged: if it is missing or is not that checkpoint's.
        BurstError: if a newer burst wrote it.
        Unreachable: if the blobs did not answer.
    """
    try:
        manifest = Manifest.decode(blobs.get(record.manifest))
    except NotFound as error:
        raise Damaged(f"{record.manifest} is missing") from error
    if manifest.id != record.id:
        raise Damaged(f"{record.manifest} is of another checkpoint", why=manifest.id)
    return manifest


def fetch(blobs: Blobs, entry: FileEntry, buffer: Buffer | None = None) -> memoryview:
    """A file's bytes, verified; they lie in `buffer` if one is given, and it is large enough.

    Raises:
        Damaged: if it is missing or is not what was written.
        Unreachable: if the blobs did not answer.
    """
    try:
        if buffer is None or len(buffer) < entry.size:
            data = memoryview(blobs.get(entry.key))
            size = len(data)
        else:
            size = blobs.read_into(entry.key, memoryview(buffer))
            data = memoryview(buffer)[: entry.size]
    except NotFound as error:
        raise Damaged(f"{entry.key} is missing") from error
    if size != entry.size:
        raise Damaged(
            f"{entry.key} has another size than was written",
            why=f"{size} bytes where {entry.size} were written",
        )
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise Damaged(
            f"{entry.key} holds other bytes than were written", why="its SHA-256 is another"
        )
    return data


def in_words(error: Damaged) -> str:
    return f"{error.what}: {error.why}" if error.why else error.what
