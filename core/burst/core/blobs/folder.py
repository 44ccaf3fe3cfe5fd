"""Blobs as files in a folder of this machine, or of a file system that machines share.

Written against `os` rather than fsspec, whose local file system neither fsyncs nor renames, and
whose import alone takes longer than `burst ls`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from burst.core.blobs.disk import Disk, read_file, write_file
from burst.core.blobs.folder_batch import FolderBatch
from burst.core.blobs.folder_writer import FolderWriter, confirm
from burst.core.blobs.keys import PARTIAL, check_key, check_prefix
from burst.core.blobs.local_file import write_whole
from burst.core.blobs.once import put_once
from burst.core.blobs.port import DAY_S, BlobInfo, Unfinished
from burst.core.blobs.words import told
from burst.core.errors import NotFound

_CHUNK = 2**20
_DISK = Disk()


class FolderBlobs:
    """A blob is written apart, fsynced, and renamed: whole or absent, whoever dies."""

    def __init__(self, root: Path, disk: Disk = _DISK) -> None:
        """Opens the blobs under `root`, creating the folder.

        Raises:
            Unreachable: the folder cannot be made.
        """
        self._writer = FolderWriter(root.absolute(), disk)
        with told(self._root):
            self._writer.make_folder(self._root)

    @property
    def url(self) -> str:
        return f"file://{self._root}"

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data).cast("B")
        self._write(key, lambda descriptor: write_file(self._writer.disk, descriptor, view))

    def put_new(self, key: str, data: bytes | bytearray | memoryview) -> None:
        view, path = memoryview(data).cast("B"), self._writer.path(key)

        def fill(descriptor: int) -> None:
            write_file(self._writer.disk, descriptor, view)

        put_once(
            str(path),
            view,
            lambda: self._write(key, fill, new=True),
            lambda: self.get(key),
        )

    def batch(self) -> FolderBatch:
        return FolderBatch(self._writer)

    def put_file(self, key: str, path: Path) -> None:
        with told(path), path.open("rb") as source:
            self._write(key, lambda descriptor: self._copy(source, descriptor))

    def get(self, key: str) -> bytes:
        with self._reading(key) as file:
            return file.read()

    def get_range(self, key: str, start: int, stop: int) -> bytes:
        with self._reading(key) as file:
            file.seek(start)
            return file.read(max(0, stop - start))

    def read_into(self, key: str, buffer: memoryview) -> int:
        with self._reading(key) as file:
            return read_file(file.fileno(), buffer.cast("B"))

    def get_file(self, key: str, path: Path) -> None:
        with self._reading(key) as source, told(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, lambda file: shutil.copyfileobj(source, file, _CHUNK))

    def info(self, key: str) -> BlobInfo | None:
        path = self._writer.path(key)
        with told(path):
            try:
                found = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
            if path.is_dir():
                return None
            return BlobInfo(key, found.st_size, found.st_mtime)

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        head, slash, stem = check_prefix(prefix).rpartition("/")
        return self._walk(self._root / head, head + slash, stem)

    def delete(self, key: str) -> None:
        path = self._writer.path(key)
        with told(path):
            try:
                self._writer.disk.remove(path)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return
            self._writer.remove_empty(path.parent)

    def unfinished(self, prefix: str = "", *, older_than: float = DAY_S) -> Sequence[Unfinished]:
        check_prefix(prefix)
        return []

    def discard(self, unfinished: Unfinished) -> None:
        check_key(unfinished.key)

    def local_path(self, key: str) -> Path | None:
        path = self._writer.path(key)
        return path if path.is_file() else None

    @property
    def _root(self) -> Path:
        return self._writer.root

    @contextmanager
    def _reading(self, key: str) -> Iterator[BinaryIO]:
        path = self._writer.path(key)
        with told(path):
            try:
                file = path.open("rb")
            except (IsADirectoryError, NotADirectoryError):
                raise NotFound(f"there is no {path}") from None
            with file:
                yield file

    def _write(self, key: str, fill: Callable[[int], None], *, new: bool = False) -> bool:
        path, disk = self._writer.path(key), self._writer.disk
        with told(path):
            partial, descriptor = self._writer.create(path.parent, fill)
            open_descriptor: int | None = descriptor
            try:
                disk.sync(descriptor)
                written = os.fstat(descriptor)
                disk.close(descriptor)
                open_descriptor = None
                placed = self._writer.place(partial, path, new=new)
            except BaseException:
                self._writer.drop(partial, open_descriptor)
                raise
            if not placed:
                self._writer.drop(partial, None)
            self._writer.sync_folder(path.parent)  # also for whoever was first and died here
            if not placed:
                return False
            with suppress(FileNotFoundError):  # someone has deleted it since
                confirm(path, written)
        return True

    def _copy(self, source: BinaryIO, descriptor: int) -> None:
        offset = 0
        while chunk := source.read(_CHUNK):
            self._writer.disk.write(descriptor, memoryview(chunk), offset)
            offset += len(chunk)

    def _walk(self, folder: Path, before: str, stem: str) -> Iterator[BlobInfo]:
        with told(folder):
            try:
                with os.scandir(folder) as scan:
                    entries = [(e.name + "/" * e.is_dir(), e) for e in scan]
            except (FileNotFoundError, NotADirectoryError):
                return
        # A folder sorts with its slash, so that the whole walk is in the order of keys.
        for name, entry in sorted(entries, key=lambda pair: pair[0]):
            if not name.startswith(stem) or name.startswith(PARTIAL):
                continue
            if name.endswith("/"):
                yield from self._walk(folder / entry.name, before + name, "")
                continue
            try:
                found = entry.stat()
            except FileNotFoundError:
                continue
            yield BlobInfo(before + name, found.st_size, found.st_mtime)
