"""Checkpoints in blobs: written whole, then made to count, or not at all.

A save goes: every rank writes its files; rank 0 writes the manifest, then commits the record
under the trial's token. Before that commit nothing refers to the files, after it all of them are
durable. So a rank may die between any two steps: what it leaves is either a checkpoint or a folder
that no record names, which the next attempt's restore sweeps away.

    engine = BlobCheckpointEngine(store, blobs, Identity(...), collective, clock)
    found = engine.restore()
    engine.save(SaveRequest(shared=..., own=..., done=...))
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.delete import restorable, sweep
from burst.core.checkpoints.manifest import Damaged, FileEntry, Manifest, folder, manifest_key
from burst.core.checkpoints.verify import home, read
from burst.core.clock import Clock
from burst.core.errors import Fenced
from burst.core.ids import new_id
from burst.core.model import Checkpoint, Lengths
from burst.core.store.port import Append, Store
from burst.harness.checkpoints import tree
from burst.harness.checkpoints.agreement import LenderGone, OutcomeUnknown, on_all_ranks
from burst.harness.checkpoints.files import Half, StateFiles
from burst.harness.checkpoints.port import Restored, SaveRequest
from burst.harness.checkpoints.publish import Identity, mark_damaged, publish
from burst.harness.collective import Collective

__all__ = ["BlobCheckpointEngine", "Identity"]


class BlobCheckpointEngine:
    """Saves and restores for one rank, behind `burst.harness.checkpoints.port`."""

    def __init__(
        self,
        store: Store,
        blobs: Blobs,
        identity: Identity,
        collective: Collective,
        clock: Clock,
        *,
        warm_start: str = "",
    ) -> None:
        """
        Args:
            warm_start: id of the checkpoint to restore if the trial has none of its own.
        """
        self._store = store
        self._blobs = blobs
        self._identity = identity
        self._collective = collective
        self._clock = clock
        self._warm_start = warm_start
        self._files = StateFiles()
        self._parent = ""
        self._known: dict[str, FileEntry] = {}
        """Files of the trial's checkpoint `_parent`, by SHA-256."""
        self._litter: list[str] = []
        """Checkpoints that were given up, whose files may be there still."""
        self._durable = True
        self._warnings: list[str] = []

    # --- saving --------------------------------------------------------------------------------

    def save(self, request: SaveRequest) -> None:
        """See the port. Durable, or given up, when it returns."""
        self._durable = False
        shared, own = self._encode(request)
        id = ""
        try:
            id = self._begin()
            manifest = self._write(id, request, shared, own)
            try:
                self._publish(manifest)
            except LenderGone:
                self._known = {}
                manifest = self._write(id, request, shared, own)
                self._publish(manifest)
        except Exception as error:
            self._give_up(id, error, request.done)
            if isinstance(error, Fenced):
                raise
            return
        self._remember(manifest)
        self._durable = True

    def poll(self) -> list[str]:
        warnings, self._warnings = self._warnings, []
        return warnings

    def wait(self, timeout: float | None = None) -> bool:
        """Whether the last state that was handed to `save` is durable; nothing is ever pending."""
        return self._durable

    def close(self) -> None:
        self._files.close()

    def _encode(self, request: SaveRequest) -> tuple[tree.Encoded | None, tree.Encoded]:
        halves: list[tree.Encoded] = []

        def act() -> None:
            halves.append(tree.encode(request.own, "own"))
            if self._collective.rank == 0:
                halves.append(tree.encode(request.shared, "shared"))

        on_all_ranks(self._collective, act)
        return (halves[1] if self._collective.rank == 0 else None), halves[0]

    def _begin(self) -> str:
        """A fresh id, once the last save's leavings are dealt with, so that they never pile up."""

        def act() -> str:
            for id in list(self._litter):
                if self._store.find(Checkpoint, id) is None:
                    self._remove(id)
                else:
                    self._litter.remove(id)
            return new_id("ckpt", self._clock)

        id: str = self._on_rank_0(act)
        return id

    def _write(
        self, id: str, request: SaveRequest, shared: tree.Encoded | None, own: tree.Encoded
    ) -> Manifest:
        place = folder(self._identity.trial, id)

        def act() -> list[Any]:
            halves = [h for h in (own, shared) if h is not None]
            return [
                _to_json(self._files.write(self._blobs, place, half, self._known))
                for half in halves
            ]

        answers = on_all_ranks(self._collective, act)
        halves = [[_from_json(half) for half in answer] for answer in answers]
        tensors = {e.key: e for answer in halves for half in answer for e in half.tensors}
        return Manifest(
            id=id,
            trial=self._identity.trial,
            experiment=self._identity.experiment,
            attempt=self._identity.attempt,
            parent=self._parent,
            created=self._clock.now(),
            done=request.done,
            ranks=self._collective.size,
            shared=halves[0][1].state,
            own=tuple(answer[0].state for answer in halves),
            tensors=tuple(tensors.values()),
            metrics=request.metrics,
            envelope=request.envelope,
        )

    def _publish(self, manifest: Manifest) -> None:
        key = manifest_key(manifest.trial, manifest.id)
        own_folder = f"{folder(manifest.trial, manifest.id)}/"
        borrows = any(not entry.key.startswith(own_folder) for entry in manifest.files)
        record = Checkpoint(
            id=manifest.id,
            trial=manifest.trial,
            experiment=manifest.experiment,
            attempt=manifest.attempt,
            batches=manifest.done.batches,
            created=manifest.created,
            url=self._blobs.url,
            manifest=key,
            size=manifest.size,
            metrics=manifest.metrics,
        )

        def act() -> None:
            self._blobs.put(key, manifest.encode())
            publish(self._store, self._identity, record, [self._parent] if borrows else [])

        self._on_rank_0(act)

    def _remember(self, manifest: Manifest) -> None:
        self._parent = manifest.id
        self._known = {entry.sha256: entry for entry in manifest.files}

    def _give_up(self, id: str, error: Exception, done: Lengths) -> None:
        """Clean up after a save that failed, and say so; never raises for what it meets."""
        text = f"the checkpoint at batch {done.batches} was not saved: {error}"
        if not isinstance(error, Fenced):
            self._warnings.append(text)

        def act() -> None:
            if id:
                self._litter.append(id)
            if id and not isinstance(error, OutcomeUnknown):
                _attempt(lambda: self._remove(id))
            event = self._identity.event("failed", id or self._identity.trial, text, 0, 0)
            now = {"at": self._clock.now(), "data": {**event.data, "batches": done.batches}}
            _attempt(
                lambda: self._store.commit(
                    self._identity.fence, Append(event.model_copy(update=now))
                )
            )

        self._on_rank_0(act)

    def _remove(self, id: str) -> None:
        """Remove the files of a checkpoint that has no record."""
        for blob in list(self._blobs.list(f"{folder(self._identity.trial, id)}/")):
            self._blobs.delete(blob.key)
        self._litter.remove(id)

    # --- restoring -----------------------------------------------------------------------------

    def restore(self) -> Restored | None:
        """See the port. Also removes what interrupted saves of this trial have left.

        `own` is what this rank saved, whatever the number of ranks was: compare `ranks` before
        using what depends on it.

        Raises:
            Damaged, NotFound: if the checkpoint given for a warm start cannot be used.
            BurstError: if one is whole, but this burst or this torch cannot read it.
            Unreachable: if the store or the blobs did not answer.
        """
        self._on_rank_0(lambda: sweep(self._blobs, self._store, self._identity.fence))
        while picked := self._on_rank_0(self._pick):
            record = Checkpoint.model_validate(picked["record"])
            manifest = Manifest.decode(picked["manifest"].encode())
            try:
                found = self._load(record, manifest)
            except Damaged as error:
                self._on_rank_0(partial(self._set_aside, record, error))
                continue
            self._parent = manifest.id
            if record.url == self._blobs.url:
                self._remember(manifest)
            return found
        return self._load_warm_start() if self._warm_start else None

    def _pick(self) -> dict[str, Any] | None:
        """The next checkpoint to try: rank 0's part."""
        for record in restorable(self._store.children(Checkpoint, self._identity.trial)):
            try:
                manifest = read(home(self._blobs, record), record)
            except Damaged as error:
                self._set_aside(record, error)
                continue
            return {
                "record": record.model_dump(mode="json"),
                "manifest": manifest.encode().decode(),
            }
        return None

    def _load(self, record: Checkpoint, manifest: Manifest, *, warm: bool = False) -> Restored:
        blobs = home(self._blobs, record)
        by_digest = {entry.sha256: entry for entry in manifest.files}
        trees: list[Any] = []

        def act() -> None:
            rank = self._collective.rank
            trees.append(self._files.read(blobs, manifest.shared, by_digest))
            own = manifest.own[rank] if rank < len(manifest.own) else None
            trees.append(self._files.read(blobs, own, by_digest) if own else None)

        on_all_ranks(self._collective, act)
        return Restored(
            checkpoint=manifest.id,
            shared=trees[0],
            own=trees[1],
            done=manifest.done,
            ranks=manifest.ranks,
            envelope=manifest.envelope,
            warm=warm,
        )

    def _load_warm_start(self) -> Restored:
        def act() -> dict[str, Any]:
            record = self._store.get(Checkpoint, self._warm_start)
            manifest = read(home(self._blobs, record), record)
            return {
                "record": record.model_dump(mode="json"),
                "manifest": manifest.encode().decode(),
            }

        picked = self._on_rank_0(act)
        record = Checkpoint.model_validate(picked["record"])
        return self._load(record, Manifest.decode(picked["manifest"].encode()), warm=True)

    def _set_aside(self, record: Checkpoint, error: Damaged) -> None:
        text = str(error)
        print(
            f"warning: checkpoint {record.id} at batch {record.batches} is damaged and is not "
            f"used; the one before it is\n{text}",
            file=sys.stderr,
        )
        mark_damaged(self._store, self._identity, record, text, self._clock.now())

    # --- all ranks -----------------------------------------------------------------------------

    def _on_rank_0(self, act: Callable[[], Any]) -> Any:
        """What `act`, done on rank 0 alone, returned; known to all ranks, like its failure."""
        alone = act if self._collective.rank == 0 else lambda: None
        return on_all_ranks(self._collective, alone)[0]


def _to_json(half: Half) -> dict[str, Any]:
    return {
        "state": half.state.model_dump(),
        "tensors": [entry.model_dump() for entry in half.tensors],
    }


def _from_json(half: Mapping[str, Any]) -> Half:
    tensors = tuple(FileEntry.model_validate(entry) for entry in half["tensors"])
    return Half(FileEntry.model_validate(half["state"]), tensors)


def _attempt(act: Callable[[], Any]) -> None:
    """Do what may fail without harm: it is done again later, or was only a courtesy."""
    with contextlib.suppress(Exception):
        act()
