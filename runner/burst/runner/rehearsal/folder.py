"""The folder of a rehearsal: one to throw away, or one to keep, which is never anybody else's."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from burst.core.errors import BurstError, Refused, UsageError
from burst.core.units import counted
from burst.runner.agent.hardware.machine import MIN_FREE_BYTES, free_bytes
from burst.runner.agent.locks import FileLock
from burst.runner.rehearsal.ec2.marks import sweep

MARK_FILE = ".burst-rehearsal"
"""In a folder that a rehearsal has made or taken; locked while one runs there."""
CLUSTER_FILE = "cluster.yaml"
"""Not `burst.yaml`, which every `burst` called below the folder would take for its own."""
CLOUD, HOME, TRIALS = "cloud", "home", "trials"
_MINE = (CLOUD, HOME, TRIALS, CLUSTER_FILE)


@contextmanager
def rehearsal_folder(keep: Path | None) -> Iterator[Path]:
    """Where a rehearsal lives, empty but for a mark; it is removed at the end unless it is `keep`.

    A folder that an earlier rehearsal has kept is used again: what that one left is removed.

    Raises:
        UsageError: `keep` holds what no rehearsal has written, or it cannot be made.
        Refused: another rehearsal runs in it, or the disk is full.
    """
    if keep is None:
        made = Path(tempfile.mkdtemp(prefix="burst-rehearsal-"))
        try:
            check_space(made, "set TMPDIR to a folder on a larger disk, or name one with --keep")
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return
    folder = keep.absolute()
    check_kept(folder)
    lock = FileLock(folder / MARK_FILE)
    try:
        free = lock.try_take()
    except OSError as error:
        raise _unmade(folder, error) from error
    if not free:
        raise Refused(
            f"another rehearsal runs in {folder}",
            mend="wait for its end, or name another folder with --keep",
        )
    try:
        _clear(folder)
        check_space(folder, "free some, or name a folder on another disk with --keep")
        yield folder
    finally:
        lock.release()


def check_kept(folder: Path) -> None:
    """That nothing of anybody's would be overwritten in `folder`; it need not be there.

    Raises:
        UsageError: it holds what no rehearsal has written, or it cannot be read.
    """
    try:
        found = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unmade(folder, error) from error
    if found and MARK_FILE not in found:
        raise UsageError(
            f"{folder} holds what no rehearsal has written",
            why=f"{counted(len(found), 'thing')} there, such as {found[0]}",
            mend="name a folder with --keep that is empty or not there",
        )


def check_space(folder: Path, mend: str) -> None:
    """That there is as much room as every machine of the rehearsal asks for.

    Raises:
        Refused: there is not.
    """
    free = free_bytes(folder)
    if free < MIN_FREE_BYTES:
        raise Refused(
            f"{folder} has no room for a rehearsal",
            why=f"only {free >> 20} MiB are free there; its machines need {MIN_FREE_BYTES >> 20}",
            mend=mend,
        )


def _clear(folder: Path) -> None:
    """Remove what an earlier rehearsal left, its processes first."""
    sweep(str(folder))
    try:
        for name in _MINE:
            path = folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise _unmade(folder, error) from error


def _unmade(folder: Path, error: OSError) -> BurstError:
    return UsageError(
        f"a rehearsal cannot be kept in {folder}",
        why=f"{error.filename or folder}: {error.strerror or error}",
        mend="name a folder with --keep that you may write",
    )
