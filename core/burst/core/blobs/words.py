"""What the operating system said about a file, as an error that a person can act on."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from burst.core.errors import BurstError, NotFound, StoreError, Unreachable


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Raise as a BurstError about `path` what is raised as an OSError inside."""
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
