"""What the tests of tiers share: a trial whose checkpoints are made of plain bytes, and nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.format.manifest import (
    FileEntry,
    Manifest,
    folder,
    manifest_key,
    owner_of,
)
from burst.core.checkpoints.tiers.places import Tiers
from burst.core.clock import ManualClock
from burst.core.ids import new_id
from burst.core.launch import Tier
from burst.core.model import Checkpoint, Lengths, Trial
from burst.core.store import open_store, update
from burst.core.store.port import Fence, Put, Store
from burst.core.testing.faults import FaultyBlobs, Plan
from tests.core.checkpoints.trials import add_trial

SIZE = 5_000
"""Bytes of a file: not a multiple of anything."""


def content(name: str, size: int = SIZE) -> bytes:
    """Bytes that another name does not give."""
    block = hashlib.sha256(name.encode()).digest()
    return (block * (size // len(block) + 1))[:size]


@dataclass
class TierLab:
    """One trial in a store, and whatever tiers a test gives it."""

    clock: ManualClock = field(default_factory=ManualClock)
    store: Store = field(default_factory=lambda: open_store("memory:"))
    said: list[str] = field(default_factory=list)
    """The warnings."""

    def __post_init__(self) -> None:
        self.experiment = new_id("exp", self.clock)
        self.trial = self.add_trial(0)

    def add_trial(self, number: int) -> str:
        return add_trial(self.store, self.experiment, number)

    @property
    def fence(self) -> Fence:
        return Fence(self.trial, self.store.get(Trial, self.trial).token)

    def tiers(self, tiers: Sequence[Tier], node: str = "node-1", **more: Any) -> Tiers:
        return Tiers(tiers, node, self.clock, warn=self.said.append, **more)

    def manifest(
        self,
        batches: int,
        names: Sequence[str] = ("a", "b", "c"),
        *,
        lent: Mapping[str, FileEntry] | None = None,
        **more: Any,
    ) -> Manifest:
        """A checkpoint whose files hold `content(name)`; those in `lent` lie elsewhere already."""
        self.clock.advance(1)
        id = new_id("ckpt", self.clock)
        entries = [
            (lent or {}).get(name) or self.entry(folder(more.get("trial", self.trial), id), name)
            for name in ("shared", "own", *names)
        ]
        given = {
            "id": id,
            "trial": self.trial,
            "experiment": self.experiment,
            "attempt": 1,
            "created": self.clock.now(),
            "done": Lengths(batches=batches, epochs=batches / 10, seconds=batches * 2.0),
            "ranks": 1,
            "shared": entries[0].model_copy(update={"role": "state"}),
            "own": (entries[1].model_copy(update={"role": "state"}),),
            "tensors": tuple(entries[2:]),
        }
        return Manifest(**{**given, **more})

    def entry(self, place: str, name: str) -> FileEntry:
        data = content(name)
        digest = hashlib.sha256(data).hexdigest()
        return FileEntry(
            key=f"{place}/{digest}.safetensors", size=len(data), sha256=digest, role="tensors"
        )

    def write(self, manifest: Manifest, blobs: Blobs) -> None:
        """The files and the manifest, as a save leaves them."""
        by_digest = {
            hashlib.sha256(content(name)).hexdigest(): content(name)
            for name in ("shared", "own", *NAMES)
        }
        for entry in manifest.files:
            if blobs.info(entry.key) is None:
                blobs.put(entry.key, by_digest[entry.sha256])
        blobs.put(manifest_key(manifest.trial, manifest.id), manifest.encode())

    def save(self, tiers: Tiers, batches: int, *, spread: bool = True, **more: Any) -> Manifest:
        """What the engine does: write to the first tier, commit, copy to those that are due.

        Of files in `lent` that lie in other trials' folders, their owners get to know."""
        manifest = self.manifest(batches, **more)
        self.write(manifest, tiers.first)
        first = tiers.first_copy(self.clock.now())
        borrowed = self._note_loans(manifest)
        self.store.commit(
            Put(
                Checkpoint(
                    id=manifest.id,
                    trial=manifest.trial,
                    experiment=manifest.experiment,
                    attempt=manifest.attempt,
                    batches=batches,
                    created=manifest.created,
                    url=first.url,
                    copies=(first,),
                    manifest=manifest_key(manifest.trial, manifest.id),
                    size=manifest.size,
                    metrics=manifest.metrics,
                    borrowed_from=borrowed,
                )
            )
        )
        for tier in tiers.due(manifest) if spread else ():
            copy = tiers.spread(manifest, tier)
            change = {"url": copy.url}
            update(
                self.store,
                Checkpoint,
                manifest.id,
                lambda found, copy=copy, change=change: found.model_copy(  # type: ignore[misc]
                    update={**change, "copies": (*found.copies, copy)}
                ),
            )
        return manifest

    def _note_loans(self, manifest: Manifest) -> tuple[str, ...]:
        """Returns the trials that files are borrowed from."""
        owners = {owner_of(entry.key) for entry in manifest.files}
        for id in [owner for trial, owner in owners if trial != manifest.trial]:
            update(
                self.store,
                Checkpoint,
                id,
                lambda found: found.model_copy(update={"lent_to": (manifest.trial,)}),
            )
        return tuple(sorted({trial for trial, _ in owners} - {manifest.trial}))

    def record(self, manifest: Manifest) -> Checkpoint:
        return self.store.get(Checkpoint, manifest.id)

    def records(self) -> list[Checkpoint]:
        return self.store.children(Checkpoint, self.trial)


NAMES = tuple("abcdefghijkl") + tuple(f"layer{n}" for n in range(40))


def stored(url: str) -> set[str]:
    return {blob.key for blob in open_blobs(url).list("checkpoints/")}


def keys_of(manifest: Manifest) -> set[str]:
    """All that a tier holds of a checkpoint."""
    own = manifest_key(manifest.trial, manifest.id)
    return {own, *(entry.key for entry in manifest.files)}


def restore(tiers: Tiers, record: Checkpoint) -> dict[str, bytes]:
    manifest = tiers.find(record)
    source = tiers.source(manifest)
    return {entry.sha256: bytes(source.fetch(entry)) for entry in manifest.files}


def is_whole(lab: TierLab, found: dict[str, bytes], manifest: Manifest) -> bool:
    return set(found) == {entry.sha256 for entry in manifest.files} and all(
        hashlib.sha256(data).hexdigest() == digest for digest, data in found.items()
    )


def truncated(blobs: Blobs, key: str) -> None:
    blobs.put(key, blobs.get(key)[:-1])


def flipped(blobs: Blobs, key: str) -> None:
    data = bytearray(blobs.get(key))
    data[len(data) // 2] ^= 1
    blobs.put(key, data)


def removed(blobs: Blobs, key: str) -> None:
    blobs.delete(key)


def spread_under(
    lab: TierLab, given: list[Tier], manifest: Manifest, target: Blobs, plan: Plan
) -> None:
    def opener(url: str) -> Blobs:
        return FaultyBlobs(target if url == given[1].url else open_blobs(url), plan)

    lab.tiers(given, opener=opener).spread(manifest, given[1])
