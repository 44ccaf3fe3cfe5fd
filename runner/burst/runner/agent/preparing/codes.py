"""The user's code: fetched once a digest, verified, unpacked for each allocation."""

from __future__ import annotations

import hashlib
from pathlib import Path

from burst.core.blobs.port import Blobs
from burst.core.code.archive import code_key, unpack_code
from burst.core.errors import BurstError, NotFound, StoreError
from burst.core.model import Code
from burst.runner.agent.running.environment import CannotPrepare

KEEP_ARCHIVES = 20
"""Archives kept on a node; the least recently used go first."""
_AGAIN = "submit the experiment again, which uploads its code anew"


def unpack(code: Code, blobs: Blobs, cache: Path, folder: Path) -> None:
    """The code of `code.digest` in `folder`. A damaged copy in the cache is fetched again.

    Raises:
        CannotPrepare: the archive is not in the blobs, or is damaged there.
        OSError, Unreachable: the disk or the blobs failed.
    """
    archive = blobs.local_path(code_key(code.digest))
    if archive is None or not archive.exists():
        archive = _cached(code, blobs, cache)
    elif not _is_whole(archive, code.digest):
        raise _damaged(code, blobs)
    try:
        unpack_code(archive, folder)
    except StoreError as error:
        raise OSError(f"{error.what}: {error.why}") from error
    except BurstError as error:
        raise CannotPrepare(error.what, why=error.why, mend=error.mend) from error


def _cached(code: Code, blobs: Blobs, cache: Path) -> Path:
    archive = cache / f"{code.digest}.tar.gz"
    if _is_whole(archive, code.digest):
        archive.touch()
        return archive
    cache.mkdir(parents=True, exist_ok=True)
    try:
        blobs.get_file(code_key(code.digest), archive)
    except NotFound as error:
        raise CannotPrepare(
            f"the experiment's code {code.digest[:12]} is not in the blobs",
            why=f"{blobs.url} has no {code_key(code.digest)}",
            mend=_AGAIN,
        ) from error
    if not _is_whole(archive, code.digest):
        archive.unlink(missing_ok=True)
        raise _damaged(code, blobs)
    _trim(cache)
    return archive


def _damaged(code: Code, blobs: Blobs) -> CannotPrepare:
    return CannotPrepare(
        f"the experiment's code {code.digest[:12]} is damaged",
        why=f"{code_key(code.digest)} in {blobs.url} has another SHA-256 than its name",
        mend=f"delete that blob and {_AGAIN}",
    )


def _is_whole(archive: Path, digest: str) -> bool:
    try:
        with archive.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    except FileNotFoundError:
        return False


def _trim(cache: Path) -> None:
    archives = sorted(cache.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)
    for old in archives[:-KEEP_ARCHIVES]:
        old.unlink(missing_ok=True)
