"""Folders that may be the place where a disk is mounted at other times.

What is written into such a folder while its disk is away lies on the node's own disk, and dies
with it, though it looks like a copy that outlives the node.
"""

from __future__ import annotations

from pathlib import Path

from burst.core.blobs.port import Blobs

Identity = tuple[int, int]


def is_bare(blobs: Blobs) -> bool:
    """Whether nothing lies there."""
    return next(iter(blobs.list("")), None) is None


class Mounts:
    """Which folders were seen with something in them."""

    def __init__(self) -> None:
        self._seen: dict[str, Identity] = {}

    def see(self, blobs: Blobs) -> None:
        """Remember a folder as the one that it is now, if something lies in it."""
        identity = _identity(blobs)
        if identity is not None and not is_bare(blobs):
            self._seen[blobs.url] = identity

    def is_away(self, blobs: Blobs) -> bool:
        """Whether nothing lies in a folder that is not known to be the one which held something:
        one that has become empty by itself, as on a full disk, is still the same."""
        identity = _identity(blobs)
        return identity is not None and is_bare(blobs) and identity != self._seen.get(blobs.url)


def _identity(blobs: Blobs) -> Identity | None:
    """Device and inode of a folder, zeros if it is gone; None where the blobs are no folder."""
    if not blobs.url.startswith("file://"):
        return None
    try:
        found = Path(blobs.url.removeprefix("file://")).stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino
