"""Checkpoints made by hand, piece by piece, for what no save would write so easily."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.exchange.foreign import Foreign, ForeignTensor
from burst.core.checkpoints.exchange.target import WORK
from burst.core.checkpoints.format.boxes import Box
from burst.core.checkpoints.format.manifest import FileEntry, Manifest, manifest_key
from burst.core.checkpoints.format.state_file import StateFile, TensorRef
from burst.core.checkpoints.format.tensorfile import entry_of, lay_out
from burst.core.clock import ManualClock
from burst.core.ids import new_id
from burst.core.model import Checkpoint, Lengths
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Put, Store

TRIAL = "exp-1m3k9zq4w7c.t0000"
Array = np.ndarray[Any, Any]


@dataclass
class Shelf:
    """A store and blobs."""

    folder: Path
    store: Store = field(default_factory=MemoryStore)
    clock: ManualClock = field(default_factory=ManualClock)

    @property
    def blobs(self) -> Blobs:
        return open_blobs(f"file://{self.folder}")

    def put(self, data: bytes, role: str, suffix: str, place: str) -> FileEntry:
        digest = hashlib.sha256(data).hexdigest()
        key = f"{place}/{digest}.{suffix}"
        self.blobs.put(key, data)
        table = {"key": key, "size": len(data), "sha256": digest, "role": role}
        return FileEntry.model_validate(table)

    def checkpoint(
        self, state: StateFile, files: Sequence[bytes], trial: str = TRIAL
    ) -> Checkpoint:
        """A checkpoint of one rank with this half that all ranks hold alike."""
        id = new_id("ckpt", self.clock)
        place = f"checkpoints/{trial}/{id}"
        tensors = [self.put(data, "tensors", "safetensors", place) for data in files]
        own = StateFile(tree=None, files=(), tensors=())
        manifest = Manifest(
            id=id,
            trial=trial,
            experiment=trial.partition(".")[0],
            attempt=1,
            created=self.clock.now(),
            done=Lengths(batches=3),
            ranks=1,
            shared=self.put(state.encode(), "state", "json", place),
            own=(self.put(own.encode(), "state", "json", place),),
            tensors=tuple(tensors),
        )
        key = manifest_key(trial, id)
        self.blobs.put(key, manifest.encode())
        record = Checkpoint(
            id=id,
            trial=trial,
            experiment=manifest.experiment,
            attempt=1,
            batches=3,
            created=manifest.created,
            url=self.blobs.url,
            manifest=key,
            size=manifest.size,
        )
        self.store.commit(Put(record))
        return self.store.get(Checkpoint, id)

    def sharded(
        self, array: Array, boxes: Sequence[Box], tree: Any = None, name: str = "w"
    ) -> Checkpoint:
        """A model of one tensor that was saved in these shards, each in a file of its own."""
        files = []
        for number, (offsets, sizes) in enumerate(boxes):
            slices = tuple(slice(a, a + n) for a, n in zip(offsets, sizes, strict=True))
            files.append(image({f"{name}:{number}": np.ascontiguousarray(array[slices])}))
        digests = [hashlib.sha256(data).hexdigest() for data in files]
        ref = TensorRef(
            name=name,
            dtype=str(array.dtype),
            shape=array.shape,
            pieces=tuple((at, f"{name}:{at}", 0) for at in range(len(files))),
            boxes=tuple(boxes),
        )
        shown = {"models": [{name: {"$": ["tensor", 0, False]}}]} if tree is None else tree
        return self.checkpoint(StateFile(tree=shown, files=tuple(digests), tensors=(ref,)), files)


def image(arrays: Mapping[str, Array]) -> bytes:
    """A safetensors file of arrays."""
    entries = [entry_of(name, str(a.dtype), a.shape) for name, a in arrays.items()]
    header, placed = lay_out(entries)
    size = max((entry.stop for entry in placed), default=len(header))
    out = bytearray(size)
    out[: len(header)] = header
    for entry in placed:
        out[entry.start : entry.stop] = arrays[entry.name].tobytes()
    return bytes(out)


def contents(folder: Path) -> dict[str, bytes]:
    """What a download made, by its path in the folder, without its own notes."""
    assert [path.name for path in (folder / WORK).iterdir()] == ["files.json"]
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != WORK)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def foreign(arrays: Mapping[str, Array], **texts: bytes) -> Foreign:
    """A model to import; `config=b"{}"` is a file `config.json` beside it."""

    def reader(data: bytes) -> Any:
        def read_into(buffer: memoryview, start: int) -> None:
            buffer[:] = data[start : start + len(buffer)]

        return read_into

    tensors = [
        ForeignTensor(name, str(a.dtype), a.shape, reader(a.tobytes()))
        for name, a in arrays.items()
    ]
    return Foreign("folder", tensors, {f"{name}.json": data for name, data in texts.items()})
