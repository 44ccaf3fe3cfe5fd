"""The index of a checkpoint, written last: no manifest, no checkpoint.

Layout under the blobs that hold it:

    checkpoints/<trial>/<checkpoint>/<sha256>.safetensors   tensors, named by their content
    checkpoints/<trial>/<checkpoint>/<sha256>.json          everything else
    checkpoints/<trial>/<checkpoint>/manifest.json          this, last

A file whose bytes an earlier checkpoint has written already is not written again: the manifest
names it in the folder where it lies. No file is a pickle, so reading a checkpoint runs no code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from burst.core.errors import BurstError
from burst.core.model import Json, Lengths

FORMAT = 2
"""Grows when an older burst could not read what a newer one writes. 2 has tensors in shards."""


class Damaged(BurstError):
    """What a checkpoint is made of is missing, or is not what was written."""


class FileEntry(BaseModel):
    """One file of a checkpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    """In the blobs that hold the manifest."""
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
        """Every file once, though several ranks may hold the same bytes."""
        return tuple({e.key: e for e in (self.shared, *self.own, *self.tensors)}.values())

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.files)

    def encode(self) -> bytes:
        """The bytes to write: JSON that people can read, sealed with its own SHA-256, so that a
        changed digit does not pass for another number of batches."""
        table = json.loads(self.model_dump_json())
        return json.dumps({**table, "seal": _seal(table)}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """
        Raises:
            Damaged: if these are not bytes that `encode` has made.
            BurstError: if a newer burst has made them.
        """
        try:
            table = json.loads(data)
            seal = table.pop("seal")
            newer = table["format"] > FORMAT
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Damaged("the manifest is not one", why=f"{error}") from error
        if seal != _seal(table):
            raise Damaged("the manifest is not what was written", why="its seal does not fit it")
        if newer:
            raise BurstError(
                f"checkpoint {table.get('id')} has format {table['format']}",
                why=f"this burst reads formats up to {FORMAT}",
                mend="use the burst that wrote it, or a newer one",
            )
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            raise Damaged("the manifest is not one", why=str(error)) from error


def _seal(table: Mapping[str, Json]) -> str:
    canonical = json.dumps(table, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def trial_folder(trial: str) -> str:
    """The key prefix of all checkpoints of a trial, with a slash at its end."""
    return f"checkpoints/{trial}/"


def folder(trial: str, checkpoint: str) -> str:
    """The key prefix of one checkpoint, without a slash at its end."""
    return f"{trial_folder(trial)}{checkpoint}"


def manifest_key(trial: str, checkpoint: str) -> str:
    return f"{folder(trial, checkpoint)}/manifest.json"


def owner_of(key: str) -> tuple[str, str]:
    """The trial and the checkpoint in whose folder a file lies."""
    _, trial, checkpoint, *_ = key.split("/")
    return trial, checkpoint
