"""Blobs as files in a folder of this machine, or of a file system that machines share.

Written against `os` rather than fsspec, whose local file system neither fsyncs nor renames within
the folder, and whose import alone takes longer than `burst ls`.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from burst.core.blobs.keys import PARTIAL, check_key, check_prefix
from burst.core.blobs.port import BlobInfo
from burst.core.errors import BurstError, NotFound, StoreError, Unreachable

_STALE_S = 24 * 3600.0
"""A partial file that nobody has written to for so long belongs to a process that is gone."""
_ATTEMPTS = 10


class FolderBlobs:
    """A blob is written beside its place, fsynced, and renamed: whole or absent, whoever dies."""

    def __init__(self, root: Path) -> None:
        """Opens the blobs under `root`, creating the folder.

        Raises:
            Unreachable: the folder cannot be made.
        """
        self._root = root.absolute()
        with _errors(self._root):
            _make_folder(self._root)

    @property
    def url(self) -> str:
        return f"file://{self._root}"

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self._write(key, lambda file: _write_all(file, data))

    def put_file(self, key: str, path: Path) -> None:
        with _errors(path), path.open("rb") as source:
            self._write(key, lambda file: shutil.copyfileobj(source, file, 2**20))

    def get(self, key: str) -> bytes:
        with self._reading(key) as file:
            return file.read()

    def get_range(self, key: str, start: int, stop: int) -> bytes:
        with self._reading(key) as file:
            file.seek(start)
            return file.read(max(0, stop - start))

    def get_file(self, key: str, path: Path) -> None:
        with self._reading(key) as source, _errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, lambda file: shutil.copyfileobj(source, file, 2**20))

    def info(self, key: str) -> BlobInfo | None:
        path = self._path(key)
        with _errors(path):
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
        path = self._path(key)
        with _errors(path):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return
            self._tidy(path.parent)

    def local_path(self, key: str) -> Path | None:
        path = self._path(key)
        return path if path.is_file() else None

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    @contextmanager
    def _reading(self, key: str) -> Iterator[BinaryIO]:
        path = self._path(key)
        with _errors(path):
            try:
                file = path.open("rb")
            except (IsADirectoryError, NotADirectoryError):
                raise NotFound(f"there is no {path}") from None
            with file:
                yield file

    def _write(self, key: str, write: Callable[[BinaryIO], object]) -> None:
        path = self._path(key)
        with _errors(path):
            for left in reversed(range(_ATTEMPTS)):
                try:
                    _make_folder(path.parent)
                    return write_whole(path, write)
                except FileNotFoundError:  # a delete has just removed the folder it emptied
                    if not left:
                        raise

    def _walk(self, folder: Path, before: str, stem: str) -> Iterator[BlobInfo]:
        with _errors(folder):
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

    def _tidy(self, folder: Path) -> None:
        """Remove what dead writers left in `folder`, and the folders that are empty now."""
        for partial in folder.glob(f"{PARTIAL}*"):
            try:
                if time.time() - partial.stat().st_mtime > _STALE_S:
                    partial.unlink()
            except FileNotFoundError:
                continue
        while folder != self._root:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent


def _write_all(file: BinaryIO, data: bytes | bytearray | memoryview) -> None:
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[file.write(rest) :]


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    partial = path.parent / f"{PARTIAL}{secrets.token_hex(8)}"
    try:
        with partial.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _make_folder(folder: Path) -> None:
    """Like `mkdir -p`, and on the disk when it returns."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some shared file systems cannot fsync a folder; they order the rename themselves.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _in_words(path, error) from error


def _in_words(path: Path, error: OSError) -> BurstError:
    why = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        return NotFound(f"there is no {path}")
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreError(
            f"cannot write {path}",
            why=why,
            mend="free space on that disk; nothing that was written before is lost",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Unreachable(
            f"cannot use {path}",
            why=why,
            mend="make its folder readable and writable, or set BURST_BLOBS or BURST_HOME",
        )
    return Unreachable(f"cannot use {path}", why=why)
