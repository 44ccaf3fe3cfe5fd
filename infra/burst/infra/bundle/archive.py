"""A zip file whose bytes follow from what is in it alone."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile

Files = Mapping[str, bytes]
"""By name in the archive."""

_DATE = (1980, 1, 1, 0, 0, 0)
"""The first that a zip file can tell."""
_UNIX = 3
_MODE = 0o100644
_PROGRAM = 0o100755


def digest_of(files: Files) -> str:
    """SHA-256, hexadecimal, of all names and bytes."""
    whole = hashlib.sha256()
    for name, data in sorted(files.items()):
        whole.update(f"{name}\0{len(data)}\0".encode())
        whole.update(data)
    return whole.hexdigest()


def write_archive(files: Files, path: Path) -> None:
    """Write the whole file or none; one that is there is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as part:
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
                for name, data in sorted(files.items()):
                    archive.writestr(_entry(name), data)
            os.replace(part.name, path)
        except BaseException:
            os.unlink(part.name)
            raise


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.create_system = _UNIX
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (_PROGRAM if name.endswith((".sh", ".so")) else _MODE) << 16
    return entry
