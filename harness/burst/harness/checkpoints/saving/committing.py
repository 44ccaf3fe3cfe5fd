"""Making a save count, on all ranks together, and cleaning up where it does not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from burst.core.checkpoints.format.manifest import FileEntry, Manifest, folder, manifest_key
from burst.core.checkpoints.removal.lend import (
    Known,
    borrowed_from,
    family_of,
    join,
    known_files,
    still_lent,
    terms,
)
from burst.core.checkpoints.tiers.places import Tiers
from burst.core.clock import Clock
from burst.core.errors import Fenced, Taken
from burst.core.model import Checkpoint
from burst.core.store.port import Store
from burst.harness.checkpoints import shards
from burst.harness.checkpoints.agreement import LenderGone, OutcomeUnknown, on_all_ranks
from burst.harness.checkpoints.codec import tree
from burst.harness.checkpoints.publish import Identity, note_failure, publish
from burst.harness.checkpoints.saving.save import Save
from burst.harness.checkpoints.saving.writing import Writing, places_of, state_file
from burst.harness.collective import Collective


class Committer:
    """Carries saves out, one after the other. Collective over `channel`, which is its own, but for
    `holds_back`."""

    def __init__(
        self,
        store: Store,
        tiers: Tiers,
        identity: Identity,
        channel: Collective,
        clock: Clock,
    ) -> None:
        self.known: dict[str, Known] = {}
        """Files that are in the first tier already, by SHA-256."""
        self._store = store
        self._tiers = tiers
        self._identity = identity
        self._channel = channel
        self._clock = clock
        self._parent = ""
        self._families: list[str] = []
        self._joined = False
        self._litter: list[str] = []
        """Checkpoints that were given up, whose files may be there still."""

    def continues(self, parent: str) -> None:
        """What the next checkpoint follows: the one that was restored."""
        self._parent = parent

    def look_around(self, shared: tree.Encoded, source: str) -> None:
        """Before the first save: find what other checkpoints have written already.

        Args:
            source: the checkpoint that the trial started from, if any.
        """
        models = [t for t in shared.tensors if t.section.startswith("models")] or shared.tensors
        shapes = [(t.name, str(t.tensor.dtype), tuple(t.tensor.shape)) for t in models]
        self._families = [family_of(shapes), f"family-{self._identity.experiment}"]

        def act() -> dict[str, Any]:
            copy = self._tiers.first_copy(0.0)
            found = known_files(
                self._tiers.first,
                self._store,
                self._identity.trial,
                source=source,
                families=self._families,
                node=copy.node,
            )
            return {digest: _to_json(known) for digest, known in found.items()}

        found = self._on_rank_0(act)
        self.known = {digest: _from_json(known) for digest, known in found.items()}

    def carry_out(self, save: Save) -> tuple[Checkpoint, Manifest]:
        """Write what is left of a save, and commit it; returns its record and its manifest.
        The snapshot is copied.

        Raises:
            Fenced: if a newer allocation owns the trial.
            BurstError, OSError: whatever kept it from being saved; that is told as an event.
        """
        try:
            try:
                return self._carry_out(save, save.writing)
            except LenderGone:
                return self._carry_out(save, self._anew(save))
        except Exception as error:
            self._give_up(save, error)
            raise

    def tidy(self) -> bool:
        """Remove what saves have left that were given up; whether nothing is left of them."""

        def act() -> None:
            for id in list(self._litter):
                if self._store.find(Checkpoint, id) is None:
                    self._remove(id)
                else:
                    self._litter.remove(id)

        self._on_rank_0(act)
        return True

    @property
    def holds_back(self) -> bool:
        """Whether there are such leavings, known on rank 0: then no other save is begun, so that
        they never pile up."""
        return bool(self._litter)

    def _carry_out(self, save: Save, files: Writing) -> tuple[Checkpoint, Manifest]:
        try:
            shards.agree(save.shared, self._channel, save.alike)
            answers = on_all_ranks(self._channel, lambda: _written(save, files))
            used = {d: _from_json(k) for answer in answers for d, k in answer["used"].items()}
            record, manifest = self._publish(save, files, answers, used)
        except BaseException:
            files.batch.abort()
            raise
        self._remember(manifest, used)
        return record, manifest

    def _anew(self, save: Save) -> Writing:
        """Write a save's files once more, without those that others have promised and deleted.

        Raises:
            LenderGone: if the memory is in use for the next save already; that one will not use
                them.
        """
        trial = self._identity.trial
        mine = {digest: known for digest, known in self.known.items() if known.trial == trial}
        good = self._on_rank_0(lambda: list(still_lent(self._store, mine)))
        self.known = {digest: mine[digest] for digest in good if digest in mine}

        def act() -> list[Writing]:
            if not save.layout.arena.retake(save.turn):
                raise LenderGone("files that it was to share with others have just been deleted")
            files = save.writing.again()
            files.begin()
            for region in range(len(save.layout.images)):
                files.filled(region)
            made.append(files)
            return []

        made: list[Writing] = []
        on_all_ranks(self._channel, act)
        return made[0]

    def _publish(
        self,
        save: Save,
        files: Writing,
        answers: Sequence[Mapping[str, Any]],
        used: Mapping[str, Known],
    ) -> tuple[Checkpoint, Manifest]:
        def act() -> list[str]:
            manifest = self._manifest(save, files, answers)
            record = self._record(manifest)
            save.request.ready()
            self._tiers.first.put_new(record.manifest, manifest.encode())
            rests_on = terms([*used.values(), *files.used.values()], self._identity.trial)
            try:
                publish(self._store, self._identity, record, rests_on.lenders, rests_on.owners)
            except LenderGone:  # nothing rests on it; written once more, it will be another
                self._tiers.first.delete(record.manifest)
                raise
            return [record.model_dump_json(), manifest.encode().decode()]

        record, manifest = self._on_rank_0(act)
        return Checkpoint.model_validate_json(record), Manifest.decode(manifest.encode())

    def _manifest(
        self, save: Save, files: Writing, answers: Sequence[Mapping[str, Any]]
    ) -> Manifest:
        chunks: list[list[Any]] = [[] for _ in save.shared.tensors]
        for answer in answers:
            for tensor, offsets, sizes, places in answer["chunks"]:
                chunks[tensor].append((offsets, sizes, places))
        for of_tensor in chunks:
            of_tensor.sort(key=lambda chunk: chunk[0])
        entries = {f["key"]: FileEntry.model_validate(f) for a in answers for f in a["files"]}
        return Manifest(
            id=save.id,
            trial=self._identity.trial,
            experiment=self._identity.experiment,
            attempt=self._identity.attempt,
            parent=self._parent,
            created=self._clock.now(),
            done=save.request.done,
            ranks=self._channel.size,
            shared=files.put_alone(state_file(save.shared, chunks)),
            own=tuple(FileEntry.model_validate(answer["own"]) for answer in answers),
            tensors=tuple(entries.values()),
            metrics=save.request.metrics,
            envelope=save.request.envelope,
        )

    def _record(self, manifest: Manifest) -> Checkpoint:
        return Checkpoint(
            id=manifest.id,
            trial=manifest.trial,
            experiment=manifest.experiment,
            attempt=manifest.attempt,
            batches=manifest.done.batches,
            created=manifest.created,
            url=self._tiers.first.url,
            copies=(self._tiers.first_copy(self._clock.now()),),
            manifest=manifest_key(manifest.trial, manifest.id),
            size=manifest.size,
            metrics=manifest.metrics,
            borrowed_from=borrowed_from(manifest),
        )

    def _remember(self, manifest: Manifest, used: Mapping[str, Known]) -> None:
        """The next checkpoint follows this one, and takes its files from it."""
        self._parent = manifest.id
        trial = self._identity.trial
        others = {d: known for d, known in self.known.items() if known.trial != trial}
        mine = {e.sha256: Known(e, manifest.id, trial) for e in manifest.files}
        self.known = {**others, **mine}
        if not self._joined:
            self._joined = True
            if self._channel.rank == 0:
                _attempt(lambda: join(self._store, self._identity.fence, self._families))

    def _give_up(self, save: Save, error: Exception) -> None:
        """Clean up after a save that failed, and say so; never raises for what it meets."""
        batches = save.request.done.batches
        text = f"the checkpoint at batch {batches} was not saved: {error}"

        def act() -> None:
            if not isinstance(error, Taken):  # whose files these are is for another to say
                self._litter.append(save.id)
                if not isinstance(error, OutcomeUnknown):
                    _attempt(lambda: self._remove(save.id))
            if not isinstance(error, Fenced):
                now = self._clock.now()
                _attempt(lambda: note_failure(self._store, self._identity, text, batches, now))

        self._on_rank_0(act)

    def _remove(self, id: str) -> None:
        """Remove the files of a checkpoint that has no record."""
        blobs = self._tiers.first
        for blob in list(blobs.list(f"{folder(self._identity.trial, id)}/")):
            blobs.delete(blob.key)
        self._litter.remove(id)

    def _on_rank_0(self, act: Callable[[], Any]) -> Any:
        """What `act`, done on rank 0 alone, returned; known to all ranks, like its failure."""
        alone = act if self._channel.rank == 0 else lambda: None
        return on_all_ranks(self._channel, alone)[0]


def _written(save: Save, files: Writing) -> dict[str, Any]:
    """Make this rank's files durable; what they are, for rank 0."""
    save.snapshot.check()
    entries = files.files()
    places = places_of(save.layout, entries, len(save.parts.parts))
    boxes = save.parts.boxes
    own = [
        [((0,) * item.tensor.dim(), tuple(item.tensor.shape), of_tensor)]
        for item, of_tensor in zip(save.own.tensors, places[len(boxes) :], strict=True)
    ]
    state = files.put_state(state_file(save.own, own))
    files.batch.finish()
    return {
        "own": state.model_dump(),
        "files": [entry.model_dump() for entry in entries],
        "used": {digest: _to_json(known) for digest, known in files.used.items()},
        "chunks": [(*box, of_box) for box, of_box in zip(boxes, places, strict=False)],
    }


def _to_json(known: Known) -> dict[str, Any]:
    return {"entry": known.entry.model_dump(), "lender": known.lender, "trial": known.trial}


def _from_json(table: Mapping[str, Any]) -> Known:
    return Known(FileEntry.model_validate(table["entry"]), table["lender"], table["trial"])


def _attempt(act: Callable[[], Any]) -> None:
    """Do what may fail without harm: it is done again later, or was only a courtesy."""
    with contextlib.suppress(Exception):
        act()
