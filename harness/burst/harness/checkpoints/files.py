"""One half of a state to files and back: content-addressed, verified, with bounded memory.

Two threads at a time build, hash and write a file each (all of it outside the interpreter's lock),
so memory beyond the state is two files of at most 64 MiB, kept for the next save.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch

from burst.core.blobs.port import Blobs
from burst.core.checkpoints import verify
from burst.core.checkpoints.manifest import FileEntry
from burst.core.checkpoints.state_file import StateFile, TensorRef
from burst.core.checkpoints.tensorfile import read_header
from burst.core.errors import BurstError
from burst.harness.checkpoints import packs, tree
from burst.harness.checkpoints.port import Tree
from burst.harness.checkpoints.values import carrier_of, dtype_of, name_of, stride_of

T = TypeVar("T")

THREADS = 2


@dataclass(frozen=True)
class Half:
    """What was written of one half of a state."""

    state: FileEntry
    tensors: tuple[FileEntry, ...]


class StateFiles:
    """Writes and reads halves of states."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="burst-checkpoint")
        self._local = threading.local()

    def write(
        self, blobs: Blobs, folder: str, half: tree.Encoded, known: Mapping[str, FileEntry]
    ) -> Half:
        """Write `half` under the key prefix `folder`, but for the files that are in `known`, by
        their SHA-256, and still there.

        Raises:
            BurstError, OSError: whatever kept it from being written; some files may be.
        """
        if any(item.tensor.is_cuda for item in half.tensors):
            torch.cuda.synchronize()
        target = _Target(blobs, folder, known)
        planned = packs.plan(half.tensors)
        jobs = [
            self._threads.submit(self._write_pack, target, pack, half.tensors) for pack in planned
        ]
        entries = _results(jobs)
        state = _state_file(half, planned, entries)
        return Half(target.put(state.encode(), "state"), tuple(entries))

    def read(self, blobs: Blobs, half: FileEntry, files: Mapping[str, FileEntry]) -> Tree:
        """The tree of a half, every byte verified.

        Raises:
            Damaged: if something is missing, or is not what was written.
            Unreachable: if the blobs did not answer.
        """
        state = StateFile.decode(bytes(verify.fetch(blobs, half)))
        try:
            return tree.decode(state.tree, self._tensors(blobs, state, files))
        except (ValueError, LookupError, TypeError) as error:
            raise BurstError(
                f"{half.key} cannot be read, though it is what was written",
                why=f"{type(error).__name__}: {error}",
                mend="use the versions of burst and torch that wrote it, or newer ones",
            ) from error

    def _tensors(
        self, blobs: Blobs, state: StateFile, files: Mapping[str, FileEntry]
    ) -> list[torch.Tensor]:
        out = [_empty(ref) for ref in state.tensors]
        parts: dict[str, list[_Part]] = {}
        for index, ref in enumerate(state.tensors):
            for file, name, start in ref.pieces:
                parts.setdefault(state.files[file], []).append(_Part(index, name, start))
        jobs = [
            self._threads.submit(self._read_pack, blobs, files[digest], of_file, out)
            for digest, of_file in parts.items()
        ]
        if sum(_results(jobs)) != sum(tensor.numel() for tensor in out):
            raise ValueError("the pieces of its tensors do not make them whole")
        return [_shaped(flat, ref) for flat, ref in zip(out, state.tensors, strict=True)]

    def close(self) -> None:
        self._threads.shutdown()

    def _write_pack(
        self, target: _Target, pack: packs.Pack, tensors: Sequence[tree.NamedTensor]
    ) -> FileEntry:
        image = packs.lay_out_pack(pack, tensors)
        with torch.no_grad():
            data = packs.fill(image, tensors, self._buffer(image.size))
        return target.put(data, "tensors")

    def _read_pack(
        self, blobs: Blobs, entry: FileEntry, parts: Sequence[_Part], out: list[torch.Tensor]
    ) -> int:
        buffer = self._buffer(entry.size + 1)
        data = verify.fetch(blobs, entry, buffer)
        header = read_header(data)
        filled = 0
        for part in parts:
            found = header[part.name]
            if found.stop > entry.size:
                raise ValueError(f"{part.name} lies beyond the end of its file")
            flat = packs.unpack(found, out[part.tensor].dtype, buffer)
            out[part.tensor][part.start : part.start + flat.numel()].copy_(flat)
            filled += flat.numel()
        return filled

    def _buffer(self, size: int) -> bytearray:
        """This thread's memory, of at least `size` bytes; what was in it is gone."""
        buffer: bytearray | None = getattr(self._local, "buffer", None)
        if buffer is None or len(buffer) < size:
            buffer = self._local.buffer = bytearray(size)
        return buffer


@dataclass(frozen=True)
class _Part:
    """A piece to read: where it goes."""

    tensor: int
    name: str
    start: int


@dataclass(frozen=True)
class _Target:
    """Where a half is written."""

    blobs: Blobs
    folder: str
    known: Mapping[str, FileEntry]

    def put(self, data: bytes | memoryview, role: Literal["tensors", "state"]) -> FileEntry:
        digest = hashlib.sha256(data).hexdigest()
        found = self.known.get(digest)
        if found is not None:
            there = self.blobs.info(found.key)
            if there is not None and there.size == found.size:
                return found
        suffix = "safetensors" if role == "tensors" else "json"
        key = f"{self.folder}/{digest}.{suffix}"
        self.blobs.put(key, data)
        return FileEntry(key=key, size=len(data), sha256=digest, role=role)


def _results(jobs: Sequence[Future[T]]) -> list[T]:
    """What the jobs return, or the first error; none of them runs any more when this returns."""
    try:
        return [job.result() for job in jobs]
    finally:
        for job in jobs:
            job.cancel()
        wait(jobs)


def _state_file(
    half: tree.Encoded, planned: Sequence[packs.Pack], entries: Sequence[FileEntry]
) -> StateFile:
    digests = list(dict.fromkeys(entry.sha256 for entry in entries))
    pieces: list[list[tuple[int, str, int]]] = [[] for _ in half.tensors]
    for pack, entry in zip(planned, entries, strict=True):
        for piece in pack:
            place = (digests.index(entry.sha256), piece.name, piece.start)
            pieces[piece.tensor].append(place)
    refs = [
        TensorRef(
            name=item.name,
            dtype=name_of(item.tensor.dtype),
            shape=tuple(item.tensor.shape),
            stride=stride_of(item.tensor),
            pieces=tuple(of_tensor),
        )
        for item, of_tensor in zip(half.tensors, pieces, strict=True)
    ]
    return StateFile(tree=half.skeleton, files=tuple(digests), tensors=tuple(refs))


def _empty(ref: TensorRef) -> torch.Tensor:
    return torch.empty(math.prod(ref.shape), dtype=carrier_of(dtype_of(ref.dtype)))


def _shaped(flat: torch.Tensor, ref: TensorRef) -> torch.Tensor:
    tensor = flat.view(ref.shape)
    if ref.stride is not None:
        permuted = torch.empty_strided(ref.shape, ref.stride, dtype=tensor.dtype)
        tensor = permuted.copy_(tensor)
    return tensor.view(dtype_of(ref.dtype))
