"""How a file gets into a folder of blobs: staged on its file system, durable, then renamed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from burst.core.blobs.disk import DIRECT_FROM, Disk, write_file
from burst.core.blobs.keys import check_key
from burst.core.blobs.staging import Staging
from burst.core.errors import StoreError

T = TypeVar("T")

_ATTEMPTS = 10
_WRITING = 2
"""Large files that are written at a time. Were there more, they would share the disk and end
together, and leave it nothing to do while whoever writes them prepares the next."""


class FolderWriter:
    """The steps of a put under one root. Errors are OSErrors."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self.root = root
        self.disk = disk
        self._stagings: dict[int, Staging] = {}
        self._writing = threading.Semaphore(_WRITING)
        self._lock = threading.Lock()

    def path(self, key: str) -> Path:
        """Where a blob lies, or would."""
        return self.root / check_key(key)

    def create(self, folder: Path, fill: Callable[[int], None]) -> tuple[Path, int]:
        """A new file, filled, that can be renamed into `folder`; its path and open descriptor.

        What was begun is removed if it fails.
        """
        partial, descriptor = _again(lambda: self._create(folder), lambda: True)
        try:
            fill(descriptor)
        except BaseException:
            self.drop(partial, descriptor)
            raise
        return partial, descriptor

    def fill(self, descriptor: int, data: memoryview) -> None:
        """Write a new file's bytes, a large one's in its turn."""
        if len(data) < DIRECT_FROM:
            write_file(self.disk, descriptor, data)
            return
        with self._writing:
            write_file(self.disk, descriptor, data)

    def place(self, partial: Path, path: Path, *, new: bool = False) -> bool:
        """Rename a durable file into its place, whose folder is made again if it went.

        Args:
            new: only if nothing has that name.

        Returns:
            False if it is not there because something else is.
        """

        def attempt() -> bool:
            self.make_folder(path.parent)
            if new:
                return self.disk.rename_new(partial, path)
            self.disk.rename(partial, path)
            return True

        return _again(attempt, partial.exists)

    def drop(self, partial: Path, descriptor: int | None) -> None:
        """Leave nothing of a file that will not get its place."""
        with suppress(OSError):
            if descriptor is not None:
                self.disk.close(descriptor)
        with suppress(OSError):
            self.disk.remove(partial)

    def make_folder(self, folder: Path) -> None:
        """Like `mkdir -p`, and on the disk when it returns."""
        if folder.is_dir():
            return
        if folder.parent != folder:
            self.make_folder(folder.parent)
        self.disk.make_folder(folder)
        self.disk.sync_folder(folder.parent)

    def sync_folder(self, folder: Path) -> None:
        """Make a rename durable. A folder that is gone has nothing left to lose: its blobs were
        deleted."""
        with suppress(FileNotFoundError):
            self.disk.sync_folder(folder)

    def remove_empty(self, folder: Path) -> None:
        """Remove `folder` and those it lies in, as far as they are empty."""
        for above in self.folders_above(folder):
            if above != self.root:
                try:
                    self.disk.remove_folder(above)
                except OSError:
                    return

    def folders_above(self, folder: Path) -> Iterator[Path]:
        """`folder` and those it lies in, up to and with the root."""
        while folder != self.root:
            yield folder
            folder = folder.parent
        yield folder

    def _create(self, folder: Path) -> tuple[Path, int]:
        self.make_folder(folder)
        partial = self._staging(folder).new()
        return partial, self.disk.create(partial)

    def _staging(self, folder: Path) -> Staging:
        """For what will lie in `folder`: on the same file system, since a part of the blobs may be
        a link to another disk."""
        device = folder.stat().st_dev
        with self._lock:
            found = self._stagings.get(device)
            if found is None or not found.is_there():
                top = folder
                while top != self.root and top.parent.stat().st_dev == device:
                    top = top.parent
                found = self._stagings[device] = Staging(top, self.disk)
            return found


def confirm(path: Path, written: os.stat_result) -> None:
    """Compare a file with what was written, unless another has replaced it since. Through a fresh
    handle, since that is when a network file system asks its server.

    Raises:
        OSError: if it cannot be opened.
        StoreError: if it is shorter or longer.
    """
    with path.open("rb") as fresh:
        found = os.fstat(fresh.fileno())
    if found.st_ino == written.st_ino and found.st_size != written.st_size:
        raise StoreError(
            f"{path} holds {found.st_size} bytes of the {written.st_size} that were written",
            mend="check the disk or the file server; this write does not count",
        )


def _again(attempt: Callable[[], T], worth: Callable[[], bool]) -> T:
    """`attempt`, again while deletes keep removing the folders that they have emptied."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            return attempt()
        except FileNotFoundError:
            if not left or not worth():
                raise
    raise AssertionError("the last attempt returns or raises")
