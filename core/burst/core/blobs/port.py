"""The blobs port: bytes under keys, put atomically."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class BlobInfo:
    key: str
    size: int
    """Bytes."""
    modified: float


class Blobs(Protocol):
    """A flat space of keys like `code/ab12….tar.gz`. A reader sees a whole blob or none."""

    @property
    def url(self) -> str:
        """Another process opens the same blobs with this (`burst.core.blobs.open_blobs`)."""
        ...

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        """Write the blob, durably, replacing any under the same key."""
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

    def local_path(self, key: str) -> Path | None:
        """Where the blob lies on this machine's disk, for reading without a copy; else None."""
        ...
