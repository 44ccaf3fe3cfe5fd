"""Where an experiment's checkpoints go, as places that a rank can open."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from burst.core.config.experiment import Checkpoints, CheckpointStorage
from burst.core.launch import Tier
from burst.core.workspace import Workspace

_NOTES = "tiers"


def tiers_for(checkpoints: Checkpoints, ws: Workspace) -> tuple[Tier, ...]:
    """The tiers of an experiment on this node, fastest first; without storage of its own, the
    workspace's blobs alone."""
    tiers = [
        Tier(
            url=_url(storage, ws),
            shared=storage.type != "local",
            every=storage.every,
            keep=storage.keep,
        )
        for storage in checkpoints.tiers
    ]
    return tuple(tiers) or (Tier(url=ws.blobs.url),)


def checkpoints_url(tiers: Sequence[Tier]) -> str:
    """The slowest of the tiers that outlive the node."""
    return [tier.url for tier in tiers if tier.shared][-1]


def local_folder(home: Path) -> Path:
    """Where checkpoints lie that do not outlive the node, unless the experiment names a place."""
    return home / "tier"


def note_local_folders(home: Path, tiers: Sequence[Tier]) -> None:
    """Remember which folders of this machine's disk hold checkpoints, for whoever tidies up."""
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


def _url(storage: CheckpointStorage, ws: Workspace) -> str:
    if storage.type == "s3":
        place = "/".join(part.strip("/") for part in (storage.bucket, storage.prefix) if part)
        query = f"?endpoint_url={storage.endpoint_url}" if storage.endpoint_url else ""
        return f"s3://{place}{query}"
    if storage.type == "local" and not storage.path:
        return f"file://{local_folder(ws.home)}"
    return f"file://{ws.home / storage.path}"
