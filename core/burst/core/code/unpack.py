"""Unpacking an archive that somebody else may have made, without trusting it.

Only files, folders and links are taken; every name and every link's target must stay in the
folder; links are made last, so that nothing is ever written through one; and what comes out is
counted as it comes, so that a small archive cannot fill the disk.
"""

from __future__ import annotations

import gzip
import io
import os
import posixpath
import shutil
import tarfile
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from burst.core.errors import BurstError, StoreError

EXPANDED_LIMIT_BYTES = 1_000_000_000
MOST_MEMBERS = 100_000
_PIECE = 1 << 20


def unpack_code(archive: bytes | Path, folder: Path, *, limit: int = EXPANDED_LIMIT_BYTES) -> None:
    """Unpack a tar.gz into `folder`, which is made if need be. Again with the same is no error.

    Raises:
        BurstError: the archive is damaged, expands to more than `limit` bytes, or holds
            something that leads out of `folder`. What was unpacked before that stays.
        StoreError: the files cannot be written.
    """
    with ExitStack() as stack:
        raw: IO[bytes] = (
            io.BytesIO(archive)
            if isinstance(archive, bytes)
            else stack.enter_context(archive.open("rb"))
        )
        bounded = _Bounded(stack.enter_context(gzip.GzipFile(fileobj=raw)), limit)
        try:
            tar = stack.enter_context(tarfile.open(fileobj=bounded, mode="r|"))
            _extract(tar, folder)
            while bounded.read(_PIECE):
                pass  # to the end, where the checksum of it all stands
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _refuse("is damaged", str(error)) from error
        except OSError as error:
            raise StoreError(
                f"cannot unpack the code into {folder}",
                why=error.strerror or str(error),
                mend="free space there, or make it writable",
            ) from error


class _Bounded(io.RawIOBase):
    """What is read through it is counted, and stops at a limit."""

    def __init__(self, source: gzip.GzipFile, limit: int) -> None:
        self._source = source
        self._limit = limit
        self._left = limit

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._left:
            size = self._left + 1
        data = self._source.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _refuse("is too large", f"it expands to more than {self._limit} bytes")
        return data


def _extract(tar: tarfile.TarFile, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    links: dict[str, str] = {}
    for count, member in enumerate(tar):
        if count >= MOST_MEMBERS:
            raise _refuse("is too large", f"it has more than {MOST_MEMBERS} members")
        name = _inside(member.name)
        if member.isdir():
            _make_folders(folder, name)
        elif member.issym():
            links[name] = _target(name, member.linkname)
        elif member.isreg():
            _write(tar, member, folder, name)
        else:
            raise _refuse("holds a special file", f"{member.name!r} is neither file nor link")
    for name, target in links.items():
        path = _place(folder, name)
        path.symlink_to(target)


def _inside(name: str) -> str:
    """`name` in its shortest form, if it stays below where it begins."""
    short = posixpath.normpath(name)
    if not name or "\0" in name or short.startswith(("/", "../")) or short == "..":
        raise _refuse("leads out of its folder", f"by {name!r}")
    return short


def _target(name: str, target: str) -> str:
    """The target of the link `name`, if it stays inside.

    In its shortest form a target goes up first and then only down, so that what it passes on the
    way, which may be a link as well, is never left upwards: chains of links stay inside too.
    """
    _inside(posixpath.join(posixpath.dirname(name), target))
    if posixpath.normpath(target) != target:
        raise _refuse("leads out of its folder", f"perhaps, by the roundabout link {name!r}")
    return target


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, name: str) -> None:
    path = _place(folder, name)
    source = tar.extractfile(member)
    assert source is not None  # a regular file has content
    mode = 0o755 if member.mode & 0o100 else 0o644
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with source, open(os.open(path, flags, mode), "wb") as file:
        shutil.copyfileobj(source, file)


def _place(folder: Path, name: str) -> Path:
    """Where `name` goes, free and with its folders made."""
    if name == ".":
        raise _refuse("leads out of its folder", "a member has the folder's own name")
    _make_folders(folder, posixpath.dirname(name))
    path = folder / name
    if path.is_symlink() or path.is_file():
        path.unlink()
    return path


def _make_folders(folder: Path, name: str) -> None:
    for part in name.split("/") if name not in ("", ".") else ():
        folder = folder / part
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink(missing_ok=True)
            folder.mkdir()


def _refuse(what: str, why: str) -> BurstError:
    return BurstError(
        f"the code archive {what}",
        why=why,
        mend="submit the experiment again; burst packs no such archive",
    )
