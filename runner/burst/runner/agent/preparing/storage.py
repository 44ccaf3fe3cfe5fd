"""Where an experiment's checkpoints go, as places that a rank can open."""

from __future__ import annotations

from collections.abc import Sequence

from burst.core.checkpoints.tiers.own_disk import local_folder
from burst.core.config.experiment import Checkpoints, CheckpointStorage
from burst.core.launch import Tier
from burst.core.workspace import Workspace


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


def _url(storage: CheckpointStorage, ws: Workspace) -> str:
    if storage.type == "s3":
        place = "/".join(part.strip("/") for part in (storage.bucket, storage.prefix) if part)
        query = f"?endpoint_url={storage.endpoint_url}" if storage.endpoint_url else ""
        return f"s3://{place}{query}"
    if storage.type == "local" and not storage.path:
        return f"file://{local_folder(ws.home)}"
    return f"file://{ws.home / storage.path}"
