"""The folders of this machine's disk in which experiments keep checkpoints.

An agent notes each in the home, so that whoever removes checkpoints or tidies up finds them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import trial_folder
from burst.core.launch import Tier

_NOTES = "tiers"


def local_folder(home: Path) -> Path:
    """Where checkpoints lie that do not outlive the node, unless the experiment names a place."""
    return home / "tier"


def note_local_folders(home: Path, tiers: Sequence[Tier]) -> None:
    """Remember which folders of this machine's disk hold checkpoints."""
    for tier in tiers:
        folder = tier.url.removeprefix("file://")
        if not tier.shared and Path(folder) != local_folder(home):
            name = hashlib.sha256(folder.encode()).hexdigest()[:16]
            notes = home / _NOTES
            notes.mkdir(exist_ok=True)
            (notes / name).write_text(folder)


def local_folders(home: Path) -> tuple[Path, ...]:
    """The folders of this machine's disk that may hold checkpoints."""
    notes = sorted((home / _NOTES).glob("*"))
    return (local_folder(home), *(Path(note.read_text()) for note in notes))


def own_disks(home: Path, trial: str) -> list[Blobs]:
    """Those in which something of a trial lies, opened. None is made that is not there.

    Raises:
        Unreachable: if one cannot be opened.
    """
    there = [root for root in local_folders(home) if (root / trial_folder(trial)).is_dir()]
    return [open_blobs(f"file://{root}") for root in there]
