"""The blobs port: bytes under keys, put atomically."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

DAY_S = 24 * 3600.0
"""No write takes so long: what is unfinished then has lost its writer."""


@dataclass(frozen=True)
class BlobInfo:
    key: str
    size: int
    """Bytes."""
    modified: float


@dataclass(frozen=True)
class Unfinished:
    """What a writer has begun and neither finished nor removed. It shows as no blob, but is paid
    for."""

    key: str
    id: str
    age: float
    """Seconds since it was begun, by the store's own clock."""


class Batch(Protocol):
    """Many blobs written at once: by several threads, made durable together."""

    def put(self, key: str, data: bytes | bytearray | memoryview, sha256: str) -> None:
        """Write one. Safe from several threads. It may become visible only with `finish`.

        Fastest where `data` lies on a page boundary in memory.

        Args:
            sha256: of `data`, in hex. A store that can check it on arrival does.

        Raises:
            Unreachable, StoreError: if it could not be written; others may be.
        """
        ...

    def finish(self) -> None:
        """All of them are durable, whole and visible when this returns; where the store says what
        it holds (size, checksum), that was compared."""
        ...

    def abort(self) -> None:
        """Leave nothing of those that are not visible yet. Idempotent, also after `finish`."""
        ...


class Blobs(Protocol):
    """A flat space of keys like `code/ab12….tar.gz`. A reader sees a whole blob or none."""

    @property
    def url(self) -> str:
        """Another process opens the same blobs with this (`burst.core.blobs.open_blobs`)."""
        ...

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        """Write the blob, durably, replacing any under the same key."""
        ...

    def put_new(self, key: str, data: bytes | bytearray | memoryview) -> None:
        """Write the blob, durably, if there is none under the key. Of several writers at once one
        succeeds; where the blob holds these very bytes already, that is a success too, so that
        this may be repeated when an answer was lost. For what makes other blobs count.

        Raises:
            Taken: it holds other bytes; nothing was written.
        """
        ...

    def batch(self) -> Batch:
        """Write many blobs at once."""
        ...

    def put_file(self, key: str, path: Path) -> None:
        """Write the blob from a file, durably; the file stays."""
        ...

    def get(self, key: str) -> bytes:
        """The whole blob.

        Raises:
            NotFound: if there is none.
        """
        ...

    def get_range(self, key: str, start: int, stop: int) -> bytes:
        """Bytes `start` to `stop` (exclusive); fewer where the blob ends."""
        ...

    def read_into(self, key: str, buffer: memoryview) -> int:
        """Read the blob into `buffer`, from its start, as far as both go; returns how many bytes
        the blob has. Interrupted transfers are resumed. Safe from several threads. Fastest where
        `buffer` lies on a page boundary and has a page more than the blob.

        Raises:
            NotFound: if there is none.
        """
        ...

    def get_file(self, key: str, path: Path) -> None:
        """Write the blob to a new file at `path`, which appears whole or not at all."""
        ...

    def info(self, key: str) -> BlobInfo | None: ...

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """The blobs whose keys start with `prefix`, by key."""
        ...

    def delete(self, key: str) -> None:
        """Remove the blob; removing one that is not there is no error."""
        ...

    def unfinished(self, prefix: str = "", *, older_than: float = DAY_S) -> Sequence[Unfinished]:
        """What lies there unfinished under keys that start with `prefix`. Of a folder nothing:
        its writers remove what dead ones have left.

        Args:
            older_than: seconds; younger ones may be under way.
        """
        ...

    def discard(self, unfinished: Unfinished) -> None:
        """Remove what is unfinished. Idempotent; of a writer that still lives, the write fails and
        is begun anew."""
        ...

    def local_path(self, key: str) -> Path | None:
        """Where the blob lies on this machine's disk, for reading without a copy; else None."""
        ...
