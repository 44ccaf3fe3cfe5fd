"""What the machine gives: its disk past the page cache, copies of memory, and what was used."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import torch

CHUNK = 32 * 2**20


class RawFile:
    """One file of `size` bytes, written and read past the page cache by one thread."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._size = size
        self._memory = mmap.mmap(-1, CHUNK)
        self._memory[:] = os.urandom(CHUNK)

    def write(self) -> float:
        """Seconds to write a new file, until it is on the disk."""
        self._path.unlink(missing_ok=True)
        begun = time.perf_counter()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o666)
        try:
            with memoryview(self._memory) as view:
                for length in self._lengths():
                    if os.write(descriptor, view[:length]) != length:
                        raise OSError(f"{self._path} was not written whole")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return time.perf_counter() - begun

    def read(self) -> float:
        """Seconds to read it."""
        begun = time.perf_counter()
        descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECT)
        try:
            while os.readv(descriptor, [self._memory]):
                pass
        finally:
            os.close(descriptor)
        return time.perf_counter() - begun

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def _lengths(self) -> list[int]:
        pages = -(-self._size // mmap.PAGESIZE) * mmap.PAGESIZE
        whole, rest = divmod(pages, CHUNK)
        return [CHUNK] * whole + [rest] * bool(rest)


class Copy:
    """Memory for a copy of tensors, touched before anything is measured."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._targets = [tensor.clone() for tensor in tensors]

    def take(self, tensors: Sequence[torch.Tensor]) -> float:
        """Seconds to copy them, with torch's threads."""
        begun = time.perf_counter()
        for target, source in zip(self._targets, tensors, strict=True):
            target.copy_(source)
        return time.perf_counter() - begun


def cpu() -> float:
    """Seconds of processor that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Peak:
    """The most memory that this process has from now on, in bytes: beyond what it has now, or
    with it."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self._before = _kilobytes("VmRSS") * 1024

    def extra(self) -> int:
        return max(0, self.most() - self._before)

    def most(self) -> int:
        """With what it had before."""
        return _kilobytes("VmHWM") * 1024


def _kilobytes(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError(f"the system does not tell {name}")
    return int(found[1])


def written() -> int:
    """Bytes that this process has had written to disks so far."""
    found = re.search(r"^write_bytes: (\d+)", Path("/proc/self/io").read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError("the system does not tell what was written")
    return int(found[1])


def forget(folder: Path) -> None:
    """Have the page cache drop the files in a folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(descriptor)
