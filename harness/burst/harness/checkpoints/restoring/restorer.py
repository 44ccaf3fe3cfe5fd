"""Bringing a trial's newest good checkpoint back, on all ranks together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from burst.core.checkpoints.format.manifest import Damaged, Manifest
from burst.core.checkpoints.removal.damage import mark_harmed
from burst.core.checkpoints.removal.delete import sweep
from burst.core.checkpoints.tiers.places import Elsewhere, Tiers
from burst.core.clock import Clock
from burst.core.errors import BurstError, Fenced, Unreachable
from burst.core.model import Allocation, Checkpoint
from burst.core.store.port import Store
from burst.harness.checkpoints.agreement import on_all_ranks
from burst.harness.checkpoints.port import Restored, Tree
from burst.harness.checkpoints.publish import Identity, mark_damaged
from burst.harness.checkpoints.restoring.reading import Reader
from burst.harness.collective import Collective


class Restorer:
    """Restores for one rank. Collective in all that it does."""

    def __init__(
        self,
        store: Store,
        tiers: Tiers,
        identity: Identity,
        collective: Collective,
        clock: Clock,
        *,
        warm_start: str = "",
        weights_only: bool = False,
    ) -> None:
        """
        Args:
            warm_start: id of the checkpoint to restore if the trial has none of its own.
            weights_only: whether of that one only the models are read.
        """
        self._store = store
        self._tiers = tiers
        self._identity = identity
        self._collective = collective
        self._clock = clock
        self._warm_start = warm_start
        self._only = "models" if weights_only else ""

    def restore(self, into: Tree = None) -> Restored | None:
        """See `burst.harness.checkpoints.port.CheckpointEngine.restore`."""
        reader = Reader()
        try:
            return self._restore(reader, into)
        finally:
            reader.close()

    def _restore(self, reader: Reader, into: Tree) -> Restored | None:
        self._on_rank_0(lambda: sweep(self._tiers.first, self._store, self._identity.fence))
        for record in self._on_rank_0(self._candidates):
            checkpoint = Checkpoint.model_validate_json(record)
            try:
                return self._load(reader, checkpoint, into)
            except Damaged as error:
                self._on_rank_0(partial(self._set_aside, checkpoint, error))
            except Elsewhere as error:
                self._tell(f"{error}; the one before it is used")
        if any(self._collective.allgather(reader.touched)):
            raise Unreachable(
                f"no checkpoint of {self._identity.trial} is whole, and a part of one is loaded",
                why="its last one turned out to be damaged while it was read",
                mend="nothing is to be done: the next attempt starts from the beginning",
            )
        return self._load_warm_start(reader, into) if self._warm_start else None

    def _candidates(self) -> list[str]:
        records = self._store.children(Checkpoint, self._identity.trial)
        attempts = self._store.children(Allocation, self._identity.trial)
        return [each.model_dump_json() for each in self._tiers.candidates(records, attempts)]

    def _load(
        self, reader: Reader, record: Checkpoint, into: Tree, *, warm: bool = False
    ) -> Restored:
        trees: list[Any] = []
        manifests: list[Manifest] = []

        def act() -> None:
            manifest = self._tiers.find(record)
            source, rank = self._tiers.source(manifest), self._collective.rank
            files = {entry.sha256: entry for entry in manifest.files}
            only = self._only if warm else ""
            trees.append(reader.read(source, manifest.shared, files, into, only=only))
            for own in () if only else manifest.own[rank :: self._collective.size]:
                trees.append(reader.read(source, own, files))
            manifests.append(manifest)

        on_all_ranks(self._collective, act)
        manifest = manifests[0]
        return Restored(
            checkpoint=manifest.id,
            shared=trees[0],
            own=trees[1] if len(trees) > 1 else None,
            done=manifest.done,
            ranks=manifest.ranks,
            envelope=manifest.envelope,
            warm=warm,
            others=tuple(trees[2:]),
        )

    def _load_warm_start(self, reader: Reader, into: Tree) -> Restored:
        found = self._on_rank_0(
            lambda: self._store.get(Checkpoint, self._warm_start).model_dump_json()
        )
        return self._load(reader, Checkpoint.model_validate_json(found), into, warm=True)

    def _set_aside(self, record: Checkpoint, error: Damaged) -> None:
        self._tell(
            f"checkpoint {record.id} at batch {record.batches} is damaged and is not used; "
            f"the one before it is\n{error}"
        )
        mark_damaged(self._store, self._identity, record, str(error), self._clock.now())
        try:
            self._mark_others(record, str(error))
        except Fenced:
            raise
        except BurstError as unmarked:
            self._tell(f"other checkpoints that need the same file are not marked: {unmarked}")

    def _mark_others(self, record: Checkpoint, text: str) -> None:
        """Mark what else needs the file that is damaged, so that no save takes it from there. Its
        key is in the text, which is all that is known of an error on another rank."""
        try:
            files = self._tiers.find(record).files
        except Damaged:
            return  # then it was the manifest, which nothing else needs
        for entry in files:
            if entry.key in text:
                now, fence = self._clock.now(), self._identity.fence
                mark_harmed(self._tiers.first, self._store, entry, now, fence=fence)

    def _tell(self, text: str) -> None:
        if self._collective.rank == 0:
            print(f"warning: {text}", file=sys.stderr)

    def _on_rank_0(self, act: Callable[[], Any]) -> Any:
        """What `act`, done on rank 0 alone, returned; known to all ranks, like its failure."""
        alone = act if self._collective.rank == 0 else lambda: None
        return on_all_ranks(self._collective, alone)[0]
