"""The files of one rank's part of a state, from tensors to durable blobs.

`Partition` says what this rank writes: its chunks of the shared half, then its own half.
`Writing` hashes and writes each region of a snapshot as soon as it is filled, a few at a time, and
gives the region back.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import torch

from burst.core.blobs.port import Batch, Blobs
from burst.core.checkpoints.format.manifest import FileEntry
from burst.core.checkpoints.format.state_file import StateFile, TensorRef
from burst.core.checkpoints.removal.lend import Known
from burst.harness.checkpoints import shards
from burst.harness.checkpoints.codec import tree
from burst.harness.checkpoints.codec.values import name_of, stride_of
from burst.harness.checkpoints.saving import packs
from burst.harness.checkpoints.saving.arena import Arena
from burst.harness.checkpoints.saving.snapshot import Layout
from burst.harness.checkpoints.shards import Chunk
from burst.harness.collective import Collective

THREADS = 4
"""More keep neither processor nor disk busier."""
_HASHING = 2
"""Of these, how many hash at a time at the most."""
_NICENESS = 10

_WHOLE = {torch.Tensor, torch.nn.Parameter}

Place = tuple[str, str, int]
"""Of a piece: the SHA-256 of its file, its name there, and its first element in its chunk."""

Box = tuple[int, tuple[int, ...], tuple[int, ...]]
"""A chunk of the shared half without its data: the tensor's index, offsets and sizes."""


@dataclass(frozen=True)
class Parts:
    """What one rank writes of a state."""

    parts: tuple[packs.Part, ...]
    sources: tuple[torch.Tensor, ...]
    """By part, its live memory."""
    boxes: tuple[Box, ...]
    """The chunks that the first parts are; the rest are the tensors of the own half."""


class Partition:
    """Divides states into parts. It keeps the last answer, since states hardly ever change their
    structure, and asking whether they did is what a save has time for."""

    def __init__(self, collective: Collective) -> None:
        self._collective = collective
        self._structure: Any = None
        self._kept = Parts((), (), ())

    def parts_of(
        self,
        shared: tree.Encoded,
        own: tree.Encoded,
        alike: frozenset[int],
        trained: frozenset[int],
    ) -> Parts:
        """
        Args:
            alike: indices of the tensors of the shared half that all ranks hold alike.
            trained: indices of those that every step changes.

        Raises:
            BurstError: if something cannot be divided, naming it.
        """
        structure = (_structure(shared), _structure(own), alike, trained)
        known = structure == self._structure
        if known and self._collective.size == 1 and not _sharded(shared):
            items = (*shared.tensors, *own.tensors)
            return replace(self._kept, sources=tuple(item.tensor for item in items))
        chunks = shards.divide(shared, self._collective, alike)
        sources = [chunk.data for chunk in chunks]
        sources += [chunk.data for chunk in shards.undivided(own)]
        if not known:
            parts = tuple(_parts(shared, chunks, own, trained))
            boxes = tuple((chunk.tensor, chunk.offsets, chunk.sizes) for chunk in chunks)
            self._kept = Parts(parts, (), boxes)
            self._structure = structure
        return replace(self._kept, sources=tuple(sources))


def _structure(half: tree.Encoded) -> tuple[list[Any], ...]:
    names = [item.name for item in half.tensors]
    tensors = [item.tensor for item in half.tensors]
    return names, [tensor.dtype for tensor in tensors], [tensor.shape for tensor in tensors]


def _sharded(half: tree.Encoded) -> bool:
    kinds = {type(item.tensor) for item in half.tensors}
    return bool(kinds - _WHOLE) and any(shards.is_sharded(item.tensor) for item in half.tensors)


def _parts(
    shared: tree.Encoded, chunks: Sequence[Chunk], own: tree.Encoded, trained: Collection[int]
) -> Iterator[packs.Part]:
    for chunk in chunks:
        item = shared.tensors[chunk.tensor]
        whole = chunk.sizes == tuple(item.tensor.shape)
        name = item.name if whole else f"{item.name}@{','.join(map(str, chunk.offsets))}"
        yield _part(name, item.section, chunk.data, chunk.tensor in trained)
    for item in own.tensors:
        yield _part(item.name, f"own {item.section}", item.tensor, False)


def _part(name: str, section: str, data: torch.Tensor, trained: bool) -> packs.Part:
    dtype = data.dtype
    return packs.Part(name, section, name_of(dtype), dtype.itemsize, tuple(data.shape), trained)


def lay_out(parts: Sequence[packs.Part], *, pinned: bool, before: Arena | None = None) -> Layout:
    """The files for `parts`, in the memory of an arena that nobody uses any more if it fits."""
    images = tuple(packs.lay_out_pack(pack, parts) for pack in packs.plan(parts))
    return Layout(images, Arena([image.size for image in images], pinned=pinned, before=before))


class Writers:
    """The threads that hash and write, for one save after another.

    Few hash at a time: were each thread to hash what it has, the disk would have nothing to do
    until all of them were done.
    """

    def __init__(self) -> None:
        processors = len(os.sched_getaffinity(0))
        self._hashing = threading.Semaphore(max(1, min(_HASHING, processors)))
        self._threads = ThreadPoolExecutor(
            THREADS, thread_name_prefix="burst-checkpoint", initializer=_be_nice
        )

    def submit(self, act: Any, *args: Any) -> Future[Any]:
        return self._threads.submit(act, *args)

    def sha256(self, data: bytes | memoryview) -> str:
        """The SHA-256 of `data`, in its turn."""
        with self._hashing:
            return hashlib.sha256(data).hexdigest()

    def close(self) -> None:
        self._threads.shutdown()


def _be_nice() -> None:
    """Leave the processors to training, where there are not enough for both."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


class Writing:
    """The files of one save on this rank."""

    def __init__(
        self,
        layout: Layout,
        writers: Writers,
        blobs: Blobs,
        folder: str,
        known: Callable[[str], Known | None],
    ) -> None:
        """
        Args:
            folder: the key prefix of this save's own files.
            known: the file with a SHA-256 that is there already, and not written again.
        """
        self.used: dict[str, Known] = {}
        """What was known, and not written again, by SHA-256."""
        self.written: dict[str, FileEntry] = {}
        """What is written, or about to be, by SHA-256."""
        self.batch: Batch = blobs.batch()
        self._layout = layout
        self._writers = writers
        self._blobs = blobs
        self._folder = folder
        self._known = known
        self._begun = False
        self._early: list[int] = []
        """Regions that were filled before `begin`."""
        self._jobs: dict[int, Future[FileEntry]] = {}
        self._lock = threading.Lock()

    def again(self) -> Writing:
        """The same anew: nothing is written yet."""
        return Writing(self._layout, self._writers, self._blobs, self._folder, self._known)

    def begin(self) -> None:
        """Let go of what was filled so far: while training waits for copies, nothing else may take
        the processors."""
        with self._lock:
            self._begun = True
            for region in self._early:
                self._jobs[region] = self._writers.submit(self._write, region)

    def filled(self, region: int) -> None:
        """Write a region's file; the region is free again soon after."""
        with self._lock:
            if self._begun:
                self._jobs[region] = self._writers.submit(self._write, region)
            else:
                self._early.append(region)

    def files(self) -> list[FileEntry]:
        """The files, by region, once all of them are written; call it when all are filled.

        Raises:
            BurstError, OSError: the first thing that kept one from being written.
        """
        jobs = [self._jobs[region] for region in sorted(self._jobs)]
        errors = [error for job in jobs if (error := job.exception()) is not None]
        if errors:
            raise errors[0]
        return [job.result() for job in jobs]

    def put_state(self, state: StateFile) -> FileEntry:
        """Write a half's JSON, with the batch."""
        return self._put_json(self.batch, state)

    def put_alone(self, state: StateFile) -> FileEntry:
        """Write a half's JSON when the batch is finished; it is durable at once."""
        batch = self._blobs.batch()
        try:
            entry = self._put_json(batch, state)
            batch.finish()
        except BaseException:
            batch.abort()
            raise
        return entry

    def _write(self, region: int) -> FileEntry:
        arena = self._layout.arena
        try:
            digest = arena.digest(region) or self._writers.sha256(arena.view(region))
            arena.note(region, digest)
            return self._put(self.batch, arena.view(region), digest, "safetensors")
        finally:
            arena.release(region)

    def _put_json(self, batch: Batch, state: StateFile) -> FileEntry:
        data = state.encode()
        return self._put(batch, data, self._writers.sha256(data), "json")

    def _put(self, batch: Batch, data: bytes | memoryview, digest: str, suffix: str) -> FileEntry:
        found = self._known(digest)
        if found is not None:
            with self._lock:
                self.used[digest] = found
            return found.entry
        role = "state" if suffix == "json" else "tensors"
        key = f"{self._folder}/{digest}.{suffix}"
        entry = FileEntry.model_validate(
            {"key": key, "size": len(data), "sha256": digest, "role": role}
        )
        with self._lock:
            if digest in self.written:  # two parts of the state are equal
                return self.written[digest]
            self.written[digest] = entry
        batch.put(key, data, digest)
        return entry


def places_of(layout: Layout, files: Sequence[FileEntry], parts: int) -> list[list[Place]]:
    """By part, where its pieces lie."""
    found: list[list[Place]] = [[] for _ in range(parts)]
    for image, file in zip(layout.images, files, strict=True):
        for piece, _ in image.places:
            found[piece.part].append((file.sha256, piece.name, piece.start))
    for pieces in found:
        pieces.sort(key=lambda place: place[2])
    return found


Written = tuple[Sequence[int], Sequence[int], Sequence[Place]]
"""A chunk of a tensor: its offsets, its sizes, and where its pieces lie."""


def state_file(half: tree.Encoded, written: Sequence[Sequence[Written]]) -> StateFile:
    """The JSON of a half. `written`: by tensor of it, its chunks."""
    digests: dict[str, int] = {}
    refs = []
    for item, chunks in zip(half.tensors, written, strict=True):
        shape = tuple(item.tensor.shape)
        whole = len(chunks) == 1 and tuple(chunks[0][1]) == shape
        pieces, boxes = [], []
        for offsets, sizes, places in chunks:
            for digest, name, start in places:
                pieces.append((digests.setdefault(digest, len(digests)), name, start))
                boxes.append((tuple(offsets), tuple(sizes)))
        refs.append(
            TensorRef(
                name=item.name,
                dtype=name_of(item.tensor.dtype),
                shape=shape,
                stride=stride_of(item.tensor) if whole else None,
                pieces=tuple(pieces),
                boxes=None if whole else tuple(boxes),
            )
        )
    return StateFile(tree=half.skeleton, files=tuple(digests), tensors=tuple(refs))
