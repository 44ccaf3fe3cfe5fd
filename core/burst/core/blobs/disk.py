"""The calls to a file system that durability is made of.

They are methods of one object, so that a test can put another in its place which fails, or dies,
at any one of them (`burst.core.testing.faults`). Each is a step: it happens or it does not.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
from contextlib import suppress
from pathlib import Path

from burst.core.chance import chance

PAGE = mmap.PAGESIZE
DIRECT_FROM = 256 * 1024
"""Bytes from which going past the page cache pays: a write then costs the processor a tenth, and
the pages of a checkpoint push no data set out of the cache."""

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


class Disk:
    """The file systems of this machine. Safe from several threads."""

    def make_folder(self, path: Path) -> None:
        """Make one folder; one that is there already is no error.

        Raises:
            FileNotFoundError: if what it lies in is not there, or if another made it first and
                has removed it since. Both are mended by making the whole path again.
        """
        try:
            path.mkdir()
        except FileExistsError as error:
            if path.is_dir():
                return
            if os.path.lexists(path):
                raise
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error

    def create(self, path: Path) -> int:
        """A descriptor for writing a file that must not be there yet."""
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)

    def write(self, descriptor: int, data: memoryview, offset: int) -> None:
        """Write all of `data`. Where the file system refuses a direct write as it stands (its
        place in memory, its length), this write and the later ones go through the page cache."""
        while data:
            try:
                written = os.pwrite(descriptor, data, offset)
            except OSError as error:
                if error.errno != errno.EINVAL or not set_direct(descriptor, False):
                    raise
                continue
            data, offset = data[written:], offset + written

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def rename_new(self, source: Path, target: Path) -> bool:
        """Rename, unless something has that name; whether nothing had. Of several who try at once
        one succeeds. (Where the file system has no hard links, this only looks before.)"""
        try:
            os.link(source, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if target.exists():
                return False
            source.replace(target)
            return True
        with suppress(OSError):  # it has its name; a later writer removes the other
            source.unlink()
        return True

    def sync_folder(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # Some shared file systems cannot fsync a folder; they order the rename themselves.
            if error.errno not in _NO_FOLDER_SYNC:
                raise
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        path.unlink()

    def remove_folder(self, path: Path) -> None:
        path.rmdir()

    def lock(self, path: Path, *, create: bool) -> tuple[int, bool]:
        """Lock a file for as long as this process, or a fork of it, keeps it open.

        Returns:
            Its descriptor, and whether the file system keeps locks at all.

        Raises:
            BlockingIOError: if another holds it.
        """
        flags = os.O_CREAT | os.O_EXCL if create else 0
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return descriptor, False
            os.close(descriptor)
            raise
        return descriptor, True

    def leave(self, folder: Path, descriptor: int) -> None:
        """Remove a folder and its files, the one it lies in if that is empty now, and let go of
        the lock: a writer ends in good order."""
        with suppress(OSError):
            shutil.rmtree(folder)
            folder.parent.rmdir()
        with suppress(OSError):
            os.close(descriptor)


def write_file(disk: Disk, descriptor: int, data: memoryview) -> None:
    """Write a new file's bytes, past the page cache where that is possible and pays.

    The last bytes, which fill no page, go through a page of their own and are cut to size after.
    """
    body = len(data) - len(data) % PAGE
    if len(data) < DIRECT_FROM or not set_direct(descriptor, True):
        disk.write(descriptor, data, 0)
        return
    disk.write(descriptor, data[:body], 0)
    if body == len(data):
        return
    with mmap.mmap(-1, PAGE) as page:
        page[: len(data) - body] = data[body:]
        with memoryview(page) as view:
            disk.write(descriptor, view, body)
    disk.truncate(descriptor, len(data))


def read_file(descriptor: int, buffer: memoryview) -> int:
    """Read a file from its start into `buffer`, as far as both go; returns the file's size.

    What the page cache has is copied from there. The rest is read past it, so that restoring costs
    no memory but `buffer`.
    """
    size = os.fstat(descriptor).st_size
    want = min(size, len(buffer))
    stop = want
    if want >= DIRECT_FROM and not _cached(descriptor, want) and set_direct(descriptor, True):
        whole = -(-want // PAGE) * PAGE
        stop = whole if whole <= len(buffer) else want
    done = 0
    while done < want:
        try:
            read = os.preadv(descriptor, [buffer[done:stop]], done)
        except OSError as error:
            if error.errno != errno.EINVAL or not set_direct(descriptor, False):
                raise
            continue
        if not read:
            break
        done += read
    return size


def set_direct(descriptor: int, direct: bool) -> bool:
    """Turn direct I/O on or off; False where it cannot be turned, or was so already."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    if bool(flags & os.O_DIRECT) == direct:
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags ^ os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return True


def _cached(descriptor: int, size: int) -> bool:
    """Whether the page cache seems to hold a file: three pages of it, drawn anew each time, since
    asking for a page brings it there."""
    page = bytearray(1)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # but not its neighbours as well
    try:
        return all(
            os.preadv(descriptor, [page], chance.randrange(size), os.RWF_NOWAIT) for _ in range(3)
        )
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        return True
    finally:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_NORMAL)
