"""A model that others have written becomes a checkpoint to start from.

It belongs to no trial that ran: its `trial` is `imports`, under which all of them are listed, and
it is pinned, so that only a person removes it. It holds a model's parameters and buffers, and the
small files beside them. What an earlier import has in the same files is not written again.
"""

from __future__ import annotations

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.exchange.foreign import Foreign
from burst.core.checkpoints.exchange.import_files import Known, Writer
from burst.core.checkpoints.format.manifest import (
    Damaged,
    FileEntry,
    Manifest,
    folder,
    manifest_key,
    owner_of,
    trial_folder,
)
from burst.core.checkpoints.removal.delete import restorable
from burst.core.checkpoints.removal.uses import IMPORTS
from burst.core.checkpoints.verify import Progress, home, read
from burst.core.clock import Clock
from burst.core.config.rules_search import MODEL_NAME
from burst.core.errors import BurstError, Conflict, Taken, UsageError
from burst.core.ids import new_id
from burst.core.model import Checkpoint, Event, Lengths, Model
from burst.core.store import update
from burst.core.store.port import Append, Put, Store, Write

_ATTEMPTS = 8
_LEFT_S = 24 * 3600.0
"""Seconds after which files without a record are what an import has left that was killed."""


_TAKEN = ("latest", "imports")


def import_model(
    blobs: Blobs,
    store: Store,
    foreign: Foreign,
    clock: Clock,
    *,
    name: str = "",
    progress: Progress | None = None,
) -> Checkpoint:
    """Write a model as a checkpoint, durable and pinned; returns its record. The same model again
    gives the checkpoint that there is.

    Args:
        name: what it is called in the registry; a name that is there gets a new version.
        progress: called with the bytes read so far, and with all there are.

    Raises:
        UsageError: there is nothing to import, or the name is none.
        Unreachable, StoreError: it could not be written; nothing is left of it.
    """
    if name and (name in _TAKEN or MODEL_NAME.fullmatch(name) is None):
        raise UsageError(
            f"{name!r} is no name of a model",
            why="it is of lower-case letters, digits, `.`, `_` and `-`, and neither looks like an "
            "id nor is `latest`",
        )
    if not foreign.tensors:
        raise UsageError(f"{foreign.title} holds no tensors")
    _sweep(blobs, store, clock)
    known = _known(blobs, store)
    id = new_id("ckpt", clock)
    writer = Writer(blobs, folder(IMPORTS, id), known)
    try:
        state = writer.write(foreign, progress)
        found = writer.same_as(state)
        if found is None:
            writer.batch.finish()
            return _publish(
                blobs, store, _manifest(id, foreign, state, writer, clock), writer, name
            )
        writer.batch.abort()
    except BaseException as error:
        writer.batch.abort()
        if not isinstance(error, Taken) and not _may_be_recorded(store, id):
            _remove(blobs, folder(IMPORTS, id))
        raise
    _register(store, found, name, clock)
    return found


def forget(store: Store, record: Checkpoint) -> tuple[str, ...]:
    """Take a checkpoint out of the registry, so that it may be removed; returns the names that it
    had. Idempotent."""
    names = []
    for model in store.children(Model, ""):
        if record.id in model.versions:
            update(store, Model, model.id, lambda found: _without(found, record.id))
            names.append(model.id)
    return tuple(names)


def _without(model: Model, checkpoint: str) -> Model:
    left = tuple(version for version in model.versions if version != checkpoint)
    return model.model_copy(update={"versions": left})


def _manifest(
    id: str, foreign: Foreign, state: FileEntry, writer: Writer, clock: Clock
) -> Manifest:
    return Manifest(
        id=id,
        trial=IMPORTS,
        experiment=IMPORTS,
        attempt=0,
        created=clock.now(),
        done=Lengths(),
        ranks=1,
        shared=state,
        own=(),
        tensors=tuple(writer.tensors),
        envelope={"imported": foreign.title},
    )


def _publish(
    blobs: Blobs, store: Store, manifest: Manifest, writer: Writer, name: str
) -> Checkpoint:
    """Make it count: the manifest, then the record, on the condition that no earlier import whose
    files it names was removed meanwhile."""
    key = manifest_key(IMPORTS, manifest.id)
    blobs.put_new(key, manifest.encode())
    title = str(manifest.envelope["imported"])
    record = Checkpoint(
        id=manifest.id,
        trial=IMPORTS,
        experiment=IMPORTS,
        attempt=0,
        batches=0,
        created=manifest.created,
        url=blobs.url,
        manifest=key,
        size=manifest.size,
        pinned=True,
        pin_reason=f"imported from {title}",
    )
    event = Event(
        subject=record.id,
        name="checkpoint.imported",
        text=f"imported from {title}",
        at=record.created,
        data={"trial": IMPORTS, "name": name},
    )
    for _ in range(_ATTEMPTS):
        lenders = [store.get(Checkpoint, id) for id in writer.lenders]
        if len(restorable(lenders)) < len(lenders):
            break
        writes: list[Write] = [Put(record), *(Put(lender) for lender in lenders), Append(event)]
        writes += _versions(store, record, name)
        try:
            store.commit(*writes)
        except Conflict:
            continue
        return record.model_copy(update={"version": 1})
    raise Conflict(
        "an earlier import that has some of the same files was removed or changed meanwhile",
        mend="import it once more",
    )


def _register(store: Store, record: Checkpoint, name: str, clock: Clock) -> None:
    """Give a checkpoint that there is a name."""
    for _ in range(_ATTEMPTS):
        writes = _versions(store, record, name)
        if not writes:
            return
        text = f"checkpoint {record.id} is called {name}"
        event = Event(subject=record.id, name="checkpoint.registered", text=text, at=clock.now())
        try:
            store.commit(*writes, Append(event))
        except Conflict:
            continue
        return
    raise Conflict(f"others change the model {name!r} again and again", mend="try it once more")


def _versions(store: Store, record: Checkpoint, name: str) -> list[Write]:
    """The write that makes a checkpoint the newest version of a name, if it is not."""
    if not name:
        return []
    model = store.find(Model, name) or Model(id=name, created=record.created)
    if model.versions[-1:] == (record.id,):
        return []
    return [Put(model.model_copy(update={"versions": (*model.versions, record.id)}))]


def _known(blobs: Blobs, store: Store) -> Known:
    known = Known()
    for record in restorable(store.children(Checkpoint, IMPORTS)):
        if record.url != blobs.url:
            continue
        try:
            manifest = read(home(blobs, record), record)
        except Damaged:
            continue
        for entry in manifest.files:
            known.entries.setdefault(entry.sha256, entry)
            known.lenders.setdefault(entry.sha256, record)
    return known


def _sweep(blobs: Blobs, store: Store, clock: Clock) -> None:
    """Remove what imports have left that were killed before their record was written."""
    before = clock.now() - _LEFT_S
    there = [blob for blob in blobs.list(trial_folder(IMPORTS)) if blob.modified < before]
    recorded = {record.id for record in store.children(Checkpoint, IMPORTS)}
    for blob in there:
        if owner_of(blob.key)[1] not in recorded:
            blobs.delete(blob.key)


def _may_be_recorded(store: Store, id: str) -> bool:
    try:
        return store.find(Checkpoint, id) is not None
    except BurstError:
        return True


def _remove(blobs: Blobs, place: str) -> None:
    for blob in list(blobs.list(f"{place}/")):
        blobs.delete(blob.key)
