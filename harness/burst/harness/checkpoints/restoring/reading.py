"""A half of a state from its files: every byte verified, then put where it belongs.

A file is read into a bounce buffer, checked whole, and only then scattered, into live tensors
where there are some. So memory beyond the state is a few files, and nothing that was not what was
written reaches a tensor.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

import torch

from burst.core.checkpoints.format.manifest import FileEntry
from burst.core.checkpoints.format.state_file import StateFile, tensor_indices
from burst.core.checkpoints.format.tensorfile import read_header
from burst.core.errors import BurstError
from burst.harness.checkpoints import shards
from burst.harness.checkpoints.codec.skeletons import decode
from burst.harness.checkpoints.garbage import no_collection
from burst.harness.checkpoints.port import Tree
from burst.harness.checkpoints.saving.arena import PAGE, Memory

T = TypeVar("T")

THREADS = 3
_NONE = torch.empty(0)
"""In the place of a tensor that is not read."""


class Source(Protocol):
    """Where files are read from; what it gives was compared with the manifest."""

    def read_into(self, key: str, buffer: memoryview) -> int: ...


class Reader:
    """Reads halves of states."""

    def __init__(self) -> None:
        self.touched = False
        """Whether a live tensor was written to."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="burst-restore")
        self._local = threading.local()

    def close(self) -> None:
        self._threads.shutdown()

    def read(
        self,
        source: Source,
        half: FileEntry,
        files: Mapping[str, FileEntry],
        into: Tree = None,
        *,
        only: str = "",
    ) -> Tree:
        """The tree of a half.

        Args:
            files: the checkpoint's files by SHA-256.
            into: a tree shaped like it, or like a part of it, with live tensors. Those that fit
                are filled, and are in the tree that is returned.
            only: the one key of the tree to read, if it has it; else all is read.

        Raises:
            Damaged: if something is missing, or is not what was written.
            Unreachable: if the blobs did not answer.
            BurstError: if this burst or this torch cannot read it.
        """
        with no_collection():
            return self._tree(source, half, files, into, only)

    def _tree(
        self,
        source: Source,
        half: FileEntry,
        files: Mapping[str, FileEntry],
        into: Tree,
        only: str,
    ) -> Tree:
        state = StateFile.decode(bytes(self._read(source, half)))
        try:
            skeleton = state.tree
            if only and isinstance(skeleton, dict) and only in skeleton:
                skeleton = {only: skeleton[only]}
            live = shards.targets(state, into)
            tensors: list[torch.Tensor] = [_NONE] * len(state.tensors)
            for index in tensor_indices(skeleton):
                found = live[index]
                self.touched = self.touched or found is not None
                tensors[index] = shards.empty(state.tensors[index]) if found is None else found
            self._fill(source, state, files, tensors)
            return decode(skeleton, tensors)
        except (ValueError, LookupError, TypeError) as error:
            raise BurstError(
                f"{half.key} cannot be read, though it is what was written",
                why=f"{type(error).__name__}: {error}",
                mend="use the versions of burst and torch that wrote it, or newer ones",
            ) from error

    def _fill(
        self,
        source: Source,
        state: StateFile,
        files: Mapping[str, FileEntry],
        tensors: Sequence[torch.Tensor],
    ) -> None:
        reads: dict[str, list[tuple[torch.Tensor, shards.Read]]] = {}
        for ref, tensor in zip(state.tensors, tensors, strict=True):
            for read in shards.wanted(ref, tensor) if tensor is not _NONE else ():
                reads.setdefault(state.files[read.file], []).append((tensor, read))
        _results(
            [
                self._threads.submit(self._read_file, source, files[digest], of_file)
                for digest, of_file in reads.items()
            ]
        )

    def _read_file(
        self,
        source: Source,
        entry: FileEntry,
        reads: Sequence[tuple[torch.Tensor, shards.Read]],
    ) -> None:
        data = self._read(source, entry)
        header = read_header(data)
        with torch.no_grad():  # once, and not for every tensor
            for tensor, read in reads:
                found = header[read.name]
                if found.stop > entry.size or found.size != read.size * tensor.dtype.itemsize:
                    raise ValueError(f"{read.name} has not the size that the state file says")
                shards.scatter(data[found.start : found.stop], read, tensor)

    def _read(self, source: Source, entry: FileEntry) -> memoryview:
        """A file's bytes, in this thread's memory; what was in it is gone."""
        view = self._bounce(entry.size)
        source.read_into(entry.key, view)
        return view[: entry.size]

    def _bounce(self, size: int) -> memoryview:
        memory: Memory | None = getattr(self._local, "memory", None)
        if memory is None or memory.size < size + PAGE:
            memory = self._local.memory = Memory(size + PAGE)
        return memory.view


def _results(jobs: Sequence[Future[T]]) -> list[T]:
    """What the jobs return, or the first error; none of them runs any more when this returns."""
    try:
        return [job.result() for job in jobs]
    finally:
        for job in jobs:
            job.cancel()
        wait(jobs)
