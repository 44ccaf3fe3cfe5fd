"""The index of a checkpoint, written last: no manifest, no checkpoint.

Layout under the blobs that hold it:

    checkpoints/<trial>/<checkpoint>/<sha256>.safetensors   tensors, named by their content
    checkpoints/<trial>/<checkpoint>/<sha256>.json          everything else
    checkpoints/<trial>/<checkpoint>/manifest.json          this, last

No file is a pickle, so reading a checkpoint runs no code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from burst.core.model import Json, Lengths

FORMAT = 1
"""Grows when an older burst could not read what a newer one writes."""


class FileEntry(BaseModel):
    """One file of a checkpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    """Relative to the folder of the manifest."""
    size: int
    sha256: str
    role: Literal["tensors", "state"]


class Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    format: int = FORMAT
    id: str
    trial: str
    experiment: str
    attempt: int
    parent: str = ""
    """The checkpoint that this attempt was restored from or wrote before."""
    created: float
    done: Lengths
    ranks: int
    """Ranks of the gang that wrote it."""
    shared: FileEntry
    """The JSON skeleton of what all ranks hold alike: models, optimizers, schedulers, counters."""
    own: tuple[FileEntry, ...]
    """By rank: the JSON skeleton of what each rank alone holds: random states, positions."""
    tensors: tuple[FileEntry, ...]
    """The safetensors files that the skeletons point into."""
    metrics: Mapping[str, float] = Field(default_factory=dict)
    envelope: Mapping[str, Json] = Field(default_factory=dict)
    """What exactness rests on: versions, threads, device, world size, data fingerprint."""

    @property
    def files(self) -> tuple[FileEntry, ...]:
        return (self.shared, *self.own, *self.tensors)

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.files)


def folder(trial: str, checkpoint: str) -> str:
    """The key prefix of one checkpoint, without a slash at its end."""
    return f"checkpoints/{trial}/{checkpoint}"


def manifest_key(trial: str, checkpoint: str) -> str:
    return f"{folder(trial, checkpoint)}/manifest.json"
