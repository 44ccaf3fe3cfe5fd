"""Many files written to a folder of blobs and made durable together."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from burst.core.blobs.folder_writer import FolderWriter, confirm
from burst.core.blobs.words import told
from burst.core.errors import NotFound, StoreError

_OPEN = 64
"""Files that wait for `finish` with an open descriptor; those beyond are fsynced when written."""


@dataclass
class _File:
    path: Path
    partial: Path
    written: os.stat_result
    descriptor: int | None
    """Open as long as the file is not known to be on the disk."""


class FolderBatch:
    """All data first, then every fsync, then every rename, then the folders.

    The first fsync commits the file system's journal for all of them, so the others cost next to
    nothing; and no name appears before its bytes are durable.
    """

    def __init__(self, writer: FolderWriter) -> None:
        self._writer = writer
        self._files: list[_File] = []
        self._folders: set[Path] = set()
        """Where files were to go; made for them, if they were not there."""
        self._over = False
        self._lock = threading.Lock()

    def put(self, key: str, data: bytes | bytearray | memoryview, sha256: str) -> None:
        view = memoryview(data).cast("B")
        path = self._writer.path(key)
        with self._lock:
            self._folders.add(path.parent)
        with told(path):
            partial, descriptor = self._writer.create(
                path.parent, lambda descriptor: self._writer.fill(descriptor, view)
            )
            file = _File(path, partial, os.fstat(descriptor), descriptor)
            with self._lock:
                over = self._over
                if not over:
                    waiting = sum(file.descriptor is not None for file in self._files)
                    self._files.append(file)
            if over:
                self._writer.drop(partial, descriptor)
                raise StoreError(f"cannot write {path}", why="its batch was given up or finished")
            if waiting >= _OPEN:
                self._sync(file)

    def finish(self) -> None:
        with self._lock:
            self._over = True
        for file in self._files:
            with told(file.path):
                self._sync(file)
        for file in self._files:
            with told(file.path):
                self._writer.place(file.partial, file.path)
        folders = {
            above for file in self._files for above in self._writer.folders_above(file.path.parent)
        }
        for folder in sorted(folders, reverse=True):
            with told(folder):
                self._writer.sync_folder(folder)
        for file in self._files:
            _confirm(file)
        self._files.clear()

    def abort(self) -> None:
        with self._lock:
            self._over = True
            files, self._files = self._files, []
        for file in files:
            self._writer.drop(file.partial, file.descriptor)
        for folder in self._folders:
            self._writer.remove_empty(folder)

    def _sync(self, file: _File) -> None:
        if file.descriptor is not None:
            self._writer.disk.sync(file.descriptor)
            self._writer.disk.close(file.descriptor)
            file.descriptor = None


def _confirm(file: _File) -> None:
    try:
        with told(file.path):
            confirm(file.path, file.written)
    except NotFound as error:
        raise StoreError(
            f"{file.path} is gone right after it was written",
            mend="see whether something else removes files there",
        ) from error
