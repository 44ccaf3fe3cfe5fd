"""The user's code as one archive, named by its content.

Packing the same files gives the same bytes, wherever and whenever: entries are sorted and carry no
owner, no date, and of their mode only whether they may be executed. So code that did not change is
neither uploaded nor unpacked twice.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from burst.core.blobs.port import Blobs
from burst.core.code.files import Entry, find_code
from burst.core.code.unpack import unpack_code
from burst.core.errors import BurstError, ConfigError, NotFound, Refused
from burst.core.model import Code

__all__ = [
    "LIMIT_BYTES",
    "PackedCode",
    "code_key",
    "download_code",
    "pack_code",
    "unpack_code",
    "upload_code",
]

LIMIT_BYTES = 100_000_000
"""Of all files together, before compression."""
_LARGEST_NAMED = 5
_GIT_S = 10.0


@dataclass(frozen=True)
class PackedCode:
    code: Code
    data: bytes
    """The archive, `code.size` bytes of tar.gz."""

    @property
    def digest(self) -> str:
        return self.code.digest

    @property
    def size(self) -> int:
        return self.code.size


def code_key(digest: str) -> str:
    """Where the archive of that digest lies in the blobs."""
    return f"code/{digest}.tar.gz"


def pack_code(folder: Path, limit: int = LIMIT_BYTES) -> PackedCode:
    """Everything in `folder` that `.gitignore` and `.burstignore` do not name.

    Raises:
        NotFound: there is no such folder.
        Refused: its files have more than `limit` bytes; the largest are named.
        ConfigError: a file cannot be read, or a link points out of the folder.
    """
    if not folder.is_dir():
        raise NotFound(f"there is no code folder {folder}")
    entries = find_code(folder)
    _check_limit(folder, entries, limit)
    packed = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", fileobj=packed, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for entry in entries:
            _add(tar, folder, entry)
    data = packed.getvalue()
    commit, dirty = _git_state(folder)
    digest = hashlib.sha256(data).hexdigest()
    return PackedCode(Code(digest=digest, size=len(data), commit=commit, dirty=dirty), data)


def upload_code(blobs: Blobs, packed: PackedCode) -> bool:
    """Put the archive into the blobs; False if it was there already. Idempotent."""
    key = code_key(packed.digest)
    found = blobs.info(key)
    if found is not None and found.size == packed.size:
        return False
    blobs.put(key, packed.data)
    return True


def download_code(blobs: Blobs, code: Code, folder: Path) -> None:
    """Fetch the archive and unpack it into `folder`. Idempotent.

    Raises:
        NotFound: the blobs do not hold it.
        BurstError: its bytes are not those of `code.digest`, or see `unpack_code`.
    """
    data = blobs.get(code_key(code.digest))
    if hashlib.sha256(data).hexdigest() != code.digest:
        raise BurstError(
            f"the code archive {code_key(code.digest)} is damaged",
            why="its bytes do not have the digest that it is named by",
            mend="delete that blob and submit the experiment again, which uploads it anew",
        )
    unpack_code(data, folder)


def _check_limit(folder: Path, entries: Sequence[Entry], limit: int) -> None:
    total = sum(entry.size for entry in entries)
    if total <= limit:
        return
    largest = sorted(entries, key=lambda entry: (-entry.size, entry.path))[:_LARGEST_NAMED]
    raise Refused(
        f"the code in {folder} has {_megabytes(total)}; at most {_megabytes(limit)} travel",
        why="the largest are "
        + ", ".join(f"{entry.path} ({_megabytes(entry.size)})" for entry in largest),
        mend="name what the trial does not need in .burstignore (written like .gitignore)",
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _add(tar: tarfile.TarFile, folder: Path, entry: Entry) -> None:
    member = tarfile.TarInfo(entry.path)
    member.mode = 0o755 if entry.executable else 0o644
    if entry.link:
        member.type, member.linkname = tarfile.SYMTYPE, entry.link
        tar.addfile(member)
    elif entry.is_folder:
        member.type = tarfile.DIRTYPE
        tar.addfile(member)
    else:
        data = _read(folder / entry.path)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with open(descriptor, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}, which is part of the code",
            why=error.strerror or str(error),
            mend="make it readable, or name it in .burstignore",
        ) from error


def _git_state(folder: Path) -> tuple[str, bool]:
    """The commit that `folder` is at and whether it differs; ("", False) where git cannot say."""
    command = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch", "--", "."]
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        answer = subprocess.run(
            command, env=environ, capture_output=True, check=True, timeout=_GIT_S
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        return "", False
    lines = answer.splitlines()
    commit = next((x.split()[-1] for x in lines if x.startswith("# branch.oid ")), "")
    if commit == "(initial)":
        return "", False
    return commit, any(not line.startswith("#") for line in lines)
