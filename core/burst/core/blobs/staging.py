"""Where a folder's blobs lie while they are written, and how what dead writers left there goes.

    <top>/.burst-partial/<machine>-<random>/lock    held locked by a living writer
    <top>/.burst-partial/<machine>-<random>/…       its unfinished files

The kernel lets go of the lock when the last process that has it ends, however it ends; so the next
writer removes what the dead left, at once and without clocks. A lock held on another machine may
not show here (NFS mounted with local locks), so of those only what is old as well is removed.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import weakref
from contextlib import suppress
from pathlib import Path

from burst.core.blobs.disk import Disk
from burst.core.blobs.keys import PARTIAL

FOLDER = f"{PARTIAL}partial"

_FOREIGN_S = 3600.0
"""A writer on another machine, whose lock is not seen here, touches its folder more often."""
_LOCKLESS_S = 24 * 3600.0
_ATTEMPTS = 10
_LOCK = "lock"


class Staging:
    """One writer's folder for unfinished files, on the file system that they will lie on."""

    def __init__(self, top: Path, disk: Disk) -> None:
        """Makes the folder under `top`, and removes those of writers that are gone."""
        self._disk = disk
        home = top / FOLDER
        if not home.is_dir():
            disk.make_folder(home)
            with suppress(OSError):  # others who may write here must be able to stage here too
                home.chmod(top.stat().st_mode & 0o7777)
        self._folder, self._descriptor = self._begin(home)
        self._finalizer = weakref.finalize(
            self, _leave, disk, os.getpid(), self._folder, self._descriptor
        )
        sweep(home, disk, apart=self._folder)

    def new(self) -> Path:
        """The path of a file that is not there yet."""
        return self._folder / secrets.token_hex(8)

    def is_there(self) -> bool:
        return self._folder.is_dir()

    def _begin(self, home: Path) -> tuple[Path, int]:
        for left in reversed(range(_ATTEMPTS)):
            folder = home / f"{machine()}-{secrets.token_hex(8)}"
            self._disk.make_folder(folder)
            try:
                descriptor, _ = self._disk.lock(folder / _LOCK, create=True)
            except (FileNotFoundError, BlockingIOError):  # a sweep took it for one left over
                if not left:
                    raise
                continue
            if (folder / _LOCK).exists():
                return folder, descriptor
            self._disk.close(descriptor)
        raise AssertionError("the last attempt returns or raises")


def sweep(home: Path, disk: Disk, apart: Path) -> None:
    """Remove the folders of writers that are gone. `apart` is the caller's, just made, whose age
    says what time it is on the file system."""
    with suppress(OSError):
        now = apart.stat().st_mtime
        for folder in list(home.iterdir()):
            if folder != apart:
                with suppress(OSError):
                    _remove_dead(folder, disk, now)


def machine() -> str:
    """What this machine's writers have in common: its boot."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    return hashlib.sha256(boot).hexdigest()[:12]


def _remove_dead(folder: Path, disk: Disk, now: float) -> None:
    try:
        descriptor, locks = disk.lock(folder / _LOCK, create=False)
    except FileNotFoundError:
        disk.remove_folder(folder)  # which only an empty one suffers
        return
    except BlockingIOError:
        return
    try:
        here = folder.name.startswith(f"{machine()}-")
        patience = (0.0 if here else _FOREIGN_S) if locks else _LOCKLESS_S
        if now - folder.stat().st_mtime >= patience:
            _empty(folder, disk)
    finally:
        disk.close(descriptor)


def _empty(folder: Path, disk: Disk) -> None:
    for path in list(folder.iterdir()):
        if path.name != _LOCK:
            disk.remove(path)
    disk.remove(folder / _LOCK)
    disk.remove_folder(folder)


def _leave(disk: Disk, process: int, folder: Path, descriptor: int) -> None:
    if os.getpid() == process:  # a fork's copy: the folder is the parent's
        disk.leave(folder, descriptor)
