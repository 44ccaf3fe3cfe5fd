"""The files of an imported model: laid out and written with the memory of two files."""

from __future__ import annotations

import base64
import hashlib
import math
import mmap
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.exchange.foreign import Foreign, ForeignTensor
from burst.core.checkpoints.format.manifest import FileEntry
from burst.core.checkpoints.format.state_file import StateFile, TensorRef
from burst.core.checkpoints.format.tensorfile import ELEMENT_BYTES, STORED_AS, entry_of, lay_out
from burst.core.checkpoints.verify import Progress
from burst.core.model import Checkpoint, Json

# As in burst.harness.checkpoints.saving.packs.
FILE_BYTES = 32 * 2**20
"""The most bytes of tensors in a file, and so, twice, the memory of an import."""
OWN_FILE_BYTES = 4 * 2**20
"""From here on a tensor has files of its own, which another checkpoint may have too."""
_MODEL = "models.0"
_TEXTS = "exports.models.0.files"
_INLINE_BYTES = 1024
"""Shorter files beside the weights stand in the state file itself, as the harness has it."""
_THREADS = 2


@dataclass(frozen=True)
class _Piece:
    tensor: int
    name: str
    start: int
    """The first element."""
    count: int
    shape: tuple[int, ...]


@dataclass
class Known:
    """Files of earlier imports, and whose word that is."""

    entries: dict[str, FileEntry] = field(default_factory=dict)
    lenders: dict[str, Checkpoint] = field(default_factory=dict)
    """By the SHA-256 of a file."""


class Writer:
    """Writes files of a model, two at a time, each in memory of its own that is used again."""

    def __init__(self, blobs: Blobs, place: str, known: Known) -> None:
        self.batch = blobs.batch()
        self.tensors: list[FileEntry] = []
        self.lenders: dict[str, Checkpoint] = {}
        """Earlier imports whose files are named, by id."""
        self._place = place
        self._known = known
        self._local = threading.local()
        self._lock = threading.Lock()
        self._done = 0

    def write(self, foreign: Foreign, progress: Progress | None) -> FileEntry:
        """Write all tensors and then the state file, whose entry it returns."""
        tensors, indices = _distinct(foreign)
        files = _plan(tensors)
        total = sum(_bytes_of(piece, tensors) for pieces in files for piece in pieces)

        def act(pieces: Sequence[_Piece]) -> FileEntry:
            entry = self._file(pieces, tensors)
            with self._lock:
                self._done += sum(_bytes_of(piece, tensors) for piece in pieces)
                if progress:
                    progress(self._done, total)
            return entry

        with ThreadPoolExecutor(_THREADS, thread_name_prefix="burst-import") as threads:
            jobs = [threads.submit(act, pieces) for pieces in files]
            try:
                written = [job.result() for job in jobs]
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise
        self.tensors = list({entry.sha256: entry for entry in written}.values())
        state = _state(foreign, tensors, indices, files, written)
        return self._put(memoryview(state.encode()), "state")

    def same_as(self, state: FileEntry) -> Checkpoint | None:
        """The import that has this very state, and so all of these files."""
        return self._known.lenders.get(state.sha256)

    def _file(self, pieces: Sequence[_Piece], tensors: Sequence[ForeignTensor]) -> FileEntry:
        entries = [entry_of(p.name, tensors[p.tensor].dtype, p.shape) for p in pieces]
        header, placed = lay_out(entries)
        size = max((entry.stop for entry in placed), default=len(header))
        buffer = self._buffer(size)
        buffer[: len(header)] = header
        by_name = {piece.name: piece for piece in pieces}
        for entry in placed:
            piece = by_name[entry.name]
            width = _width(tensors[piece.tensor].dtype)
            target = buffer[entry.start : entry.stop]
            if target:
                tensors[piece.tensor].read_into(target, piece.start * width)
        return self._put(buffer[:size], "tensors")

    def _put(self, data: memoryview, role: Literal["tensors", "state"]) -> FileEntry:
        digest = hashlib.sha256(data).hexdigest()
        found = self._known.entries.get(digest)
        if found is not None:
            lender = self._known.lenders[digest]
            with self._lock:
                self.lenders[lender.id] = lender
            return found
        suffix = "safetensors" if role == "tensors" else "json"
        key = f"{self._place}/{digest}.{suffix}"
        self.batch.put(key, data, digest)
        return FileEntry(key=key, size=len(data), sha256=digest, role=role)

    def _buffer(self, size: int) -> memoryview:
        held: memoryview | None = getattr(self._local, "buffer", None)
        if held is None or len(held) < size:
            pages = size // mmap.PAGESIZE + 2
            held = self._local.buffer = memoryview(mmap.mmap(-1, pages * mmap.PAGESIZE))
        return held


def _distinct(foreign: Foreign) -> tuple[list[ForeignTensor], dict[str, int]]:
    """Each tensor once, however many names it has, and the longer files beside the weights as
    tensors; and the index of each name."""
    tensors: list[ForeignTensor] = []
    indices: dict[str, int] = {}
    ties: dict[object, int] = {}
    for tensor in foreign.tensors:
        index = ties.get(tensor.tie) if tensor.tie is not None else None
        if index is None:
            index = len(tensors)
            tensors.append(replace(tensor, name=f"{_MODEL}.{tensor.name}"))
            if tensor.tie is not None:
                ties[tensor.tie] = index
        indices[tensor.name] = index
    for name, data in foreign.texts.items():
        if len(data) < _INLINE_BYTES:
            continue
        place = f"{_TEXTS}.{name}"
        indices[place] = len(tensors)
        tensors.append(ForeignTensor(place, "uint8", (len(data),), _reading(data)))
    return tensors, indices


def _reading(data: bytes) -> Callable[[memoryview, int], None]:
    def read_into(buffer: memoryview, start: int) -> None:
        buffer[:] = data[start : start + len(buffer)]

    return read_into


def _plan(tensors: Sequence[ForeignTensor]) -> list[list[_Piece]]:
    """Which tensors share a file: as the harness plans it, so that a layer that a trial leaves as
    it was imported is the same file in its checkpoints."""
    files: list[list[_Piece]] = []
    pools: dict[str, list[_Piece]] = {}
    filled: dict[str, int] = {}
    for index, tensor in enumerate(tensors):
        pieces = list(_pieces(index, tensor))
        size = sum(_bytes_of(piece, tensors) for piece in pieces)
        if size >= OWN_FILE_BYTES:
            files.extend([piece] for piece in pieces)
            continue
        pool = tensor.name.partition(".")[0]
        if filled.get(pool, 0) + size > FILE_BYTES:
            files.append(pools.pop(pool))
            filled[pool] = 0
        pools.setdefault(pool, []).extend(pieces)
        filled[pool] = filled.get(pool, 0) + size
    return [*files, *pools.values()]


def _pieces(index: int, tensor: ForeignTensor) -> Iterator[_Piece]:
    count = math.prod(tensor.shape)
    step = FILE_BYTES // _width(tensor.dtype)
    if count <= step:
        yield _Piece(index, tensor.name, 0, count, tensor.shape)
        return
    for start in range(0, count, step):
        part = min(step, count - start)
        yield _Piece(index, f"{tensor.name}:{start // step}", start, part, (part,))


def _width(dtype: str) -> int:
    stored, width = STORED_AS[dtype]
    return ELEMENT_BYTES[stored] * width


def _bytes_of(piece: _Piece, tensors: Sequence[ForeignTensor]) -> int:
    return piece.count * _width(tensors[piece.tensor].dtype)


def _state(
    foreign: Foreign,
    tensors: Sequence[ForeignTensor],
    indices: Mapping[str, int],
    files: Sequence[Sequence[_Piece]],
    written: Sequence[FileEntry],
) -> StateFile:
    digests = list(dict.fromkeys(entry.sha256 for entry in written))
    places: list[list[tuple[int, str, int]]] = [[] for _ in tensors]
    for pieces, entry in zip(files, written, strict=True):
        for piece in pieces:
            file = digests.index(entry.sha256)
            places[piece.tensor].append((file, piece.name, piece.start))
    refs = [
        TensorRef(name=t.name, dtype=t.dtype, shape=t.shape, pieces=tuple(held))
        for t, held in zip(tensors, places, strict=True)
    ]
    model: list[Json] = [
        [tensor.name, {"$": ["tensor", indices[tensor.name], False]}] for tensor in foreign.tensors
    ]
    texts = {
        name: {"$": ["long bytes", indices[f"{_TEXTS}.{name}"]]}
        if f"{_TEXTS}.{name}" in indices
        else {"$": ["bytes", base64.b64encode(data).decode()]}
        for name, data in foreign.texts.items()
    }
    tree: Json = {
        "models": [{"$": ["ordered", model, None]}],
        "exports": {"models": [{"files": texts, "left_out": []}], "tokenizer": {}},
    }
    return StateFile(tree=tree, files=tuple(digests), tensors=tuple(refs))
