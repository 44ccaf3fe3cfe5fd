"""What the tests of shards share: gangs of one process, and files as simple as can be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard

from burst.core.checkpoints.format.state_file import StateFile, TensorRef
from burst.harness.checkpoints import shards
from burst.harness.checkpoints.codec import tree
from burst.harness.checkpoints.codec.skeletons import decode
from burst.harness.checkpoints.codec.values import carrier_of, name_of, stride_of


@dataclass(frozen=True)
class Seat:
    """A rank of a gang whose other ranks never answer: for what must not ask them."""

    rank: int
    size: int

    def allgather(self, value: Any) -> list[Any]:
        raise AssertionError("a collective")

    def broadcast(self, value: Any) -> Any:
        raise AssertionError("a collective")

    def barrier(self) -> None:
        raise AssertionError("a collective")

    def twin(self) -> Seat:
        raise AssertionError("a collective")


@contextmanager
def world(rank: int, ranks: int) -> Iterator[None]:
    """As if this process were one of several, as far as meshes and shards go."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def mesh_of(shape: Sequence[int]) -> Any:
    """A mesh of all ranks. Its names differ from rank to rank, as torch keeps what it found out
    about a mesh for all that are equal, and in a real process they are of one rank."""
    from torch.distributed.device_mesh import DeviceMesh

    ranks = torch.arange(math.prod(shape)).reshape(tuple(shape))
    names = tuple(f"dimension {dim} of rank {dist.get_rank()}" for dim in range(len(shape)))
    return DeviceMesh("cpu", ranks, mesh_dim_names=names)


def spread_out(tensor: torch.Tensor, mesh: Any, placements: Sequence[Any]) -> DTensor:
    """A whole tensor as a DTensor, cut here as DTensor's documentation says: by `torch.chunk`, one
    dimension of the mesh after the other."""
    local = tensor
    for dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            parts = list(torch.chunk(local, mesh.shape[dim], placement.dim))
            at = mesh.get_coordinate()[dim]
            local = parts[at] if at < len(parts) else parts[0].narrow(placement.dim, 0, 0)
    return DTensor.from_local(
        local.clone(),
        mesh,
        tuple(placements),
        run_check=False,
        shape=tensor.shape,
        stride=tensor.stride(),
    )


PLACEMENTS = (Replicate(), Shard(0), Shard(1))


@dataclass
class Folder:
    """The files of one half of a state, in memory."""

    state: StateFile | None = None
    files: dict[str, torch.Tensor] = field(default_factory=dict)
    pieces: list[list[Any]] = field(default_factory=list)
    refs: list[TensorRef] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    """Names of the files that were read, in order."""

    def write(self, encoded: tree.Encoded, chunks: Sequence[shards.Chunk], rank: int) -> None:
        """One rank's part; every file holds one chunk."""
        if not self.pieces:
            self.pieces = [[] for _ in encoded.tensors]
        for chunk in chunks:
            name = f"{chunk.tensor}@{'.'.join(map(str, chunk.offsets))}"
            assert name not in self.files, "written twice"
            assert tuple(chunk.data.shape) == chunk.sizes
            data = chunk.data.detach().view(carrier_of(chunk.data.dtype))
            flat = torch.empty(chunk.sizes, dtype=data.dtype).copy_(data).reshape(-1)
            self.files[name] = flat.view(torch.uint8)
            self.pieces[chunk.tensor].append((name, (chunk.offsets, chunk.sizes)))
        if rank == 0:
            self.skeleton = encoded.skeleton
            self.tensors = [
                (item.name, name_of(item.tensor.dtype), tuple(item.tensor.shape), item.tensor)
                for item in encoded.tensors
            ]

    def finish(self) -> StateFile:
        names = list(self.files)
        refs = [
            TensorRef(
                name=name,
                dtype=dtype,
                shape=shape,
                stride=None if shards.is_sharded(tensor) else stride_of(tensor),
                pieces=tuple((names.index(file), file, 0) for file, _ in pieces),
                boxes=tuple(box for _, box in pieces),
            )
            for (name, dtype, shape, tensor), pieces in zip(self.tensors, self.pieces, strict=True)
        ]
        state = StateFile(tree=self.skeleton, files=tuple(names), tensors=tuple(refs))
        self.state = StateFile.decode(state.encode())
        return self.state

    def load(self, into: Any = None) -> Any:
        """The tree, with the live tensors of `into` filled, as one rank gets it."""
        state = self.state or self.finish()
        out = []
        self.read = []
        for ref, live in zip(state.tensors, shards.targets(state, into), strict=True):
            target = shards.empty(ref) if live is None else live
            for read in shards.wanted(ref, target):
                name = state.files[read.file]
                self.read.append(name)
                shards.scatter(self.files[name].numpy(), read, target)
            out.append(target)
        return decode(state.tree, out)


def save(folder: Folder, whole: Any, ranks: int, alike: Any = frozenset()) -> None:
    """Save a tree that all ranks hold alike, as each rank in turn."""
    for rank in range(ranks):
        encoded = tree.encode(whole, "shared")
        chunks = shards.divide(encoded, Seat(rank, ranks), alike)
        folder.write(encoded, chunks, rank)
