"""A file of this machine's, written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from burst.core.blobs.disk import Disk
from burst.core.blobs.keys import PARTIAL


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a file that appears at `path` when it is complete and durable.

    Raises:
        OSError: if it cannot be written; nothing of it is left.
    """
    partial = path.parent / f"{PARTIAL}{secrets.token_hex(8)}"
    try:
        with partial.open("x+b") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    Disk().sync_folder(path.parent)
