"""Who writes what: over all ranks every element of a state is written exactly once.

A rank finds out what it writes from the structure alone, without asking the others: what it has of
each tensor, and which of its copies writes. So a save needs no collective before it takes its
tensors, and none that differs from rank to rank could hang. That the structures are the same is
compared afterwards, in the background (`agree`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from burst.core.checkpoints.format.boxes import Box, whole
from burst.core.errors import BurstError
from burst.harness.checkpoints.codec.sharding import (
    Layout,
    is_sharded,
    layout_of,
    local_of,
    mesh_key,
)
from burst.harness.checkpoints.codec.tree import Encoded
from burst.harness.checkpoints.garbage import no_collection
from burst.harness.checkpoints.shards.boxes import rows, within
from burst.harness.collective import Collective

SPLIT_BYTES = 32 * 2**20
"""A tensor that several ranks hold alike is cut where it is larger, so that they share it."""


class Chunk(NamedTuple):
    """A box of a tensor, for this rank to write."""

    tensor: int
    """Its index in the tree's tensors."""
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    """Of the box in the whole tensor."""
    data: torch.Tensor
    """Its elements, live, in the shape `sizes`."""


class _Row(NamedTuple):
    """What a plan has to know of one tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    alike: bool
    spread: tuple[Any, tuple[Any, ...]] | None
    """Of a DTensor: what tells its mesh from others, and its placements."""


class _Structure(NamedTuple):
    """What a plan follows from."""

    rows: tuple[_Row, ...]
    meshes: dict[Any, Any]
    """By what tells it from others. Plans are kept without them: a mesh holds process groups, and
    nothing may hold those when the process ends."""


class _Part(NamedTuple):
    """A chunk without its data."""

    tensor: int
    box: Box
    start: tuple[int, ...] | None
    """Where the box begins in this rank's memory of the tensor; None if it is all of that."""


def divide(
    encoded: Encoded, collective: Collective, alike: Collection[int] = frozenset()
) -> tuple[Chunk, ...]:
    """What this rank writes of a half of a state that all ranks hold. Not collective, and plans
    are kept, so that a structure seen before costs microseconds a tensor.

    A DTensor is written by those who have its shards, each shard by one of them. Of other tensors
    those in `alike` are shared out evenly by bytes, and the rest is rank 0's, whose half counts:
    buffers that forward changes (a running mean) differ between the ranks of DDP.

    Args:
        alike: indices of tensors that have the same bytes on every rank, such as what an optimizer
            steps (`owned_by`). They, and DTensors, must have the same indices on every rank.

    Raises:
        BurstError: if a DTensor cannot be written, naming it.
    """
    if collective.size == 1 and not any(is_sharded(item.tensor) for item in encoded.tensors):
        return undivided(encoded)
    rank, ranks = collective.rank, collective.size
    structure = _structure(encoded, alike if ranks > 1 else ())
    key = (structure.rows, rank, ranks)
    plan = _plans.get(key)
    if plan is None:
        plan = _plan(structure, rank, ranks)
        while len(_plans) >= _KEPT:
            del _plans[next(iter(_plans))]
        _plans[key] = plan
    with torch.no_grad():
        return tuple(_chunk(part, encoded.tensors[part.tensor].tensor) for part in plan)


def undivided(encoded: Encoded) -> tuple[Chunk, ...]:
    """All of a half that this rank alone holds.

    Raises:
        BurstError: if it holds a DTensor, naming it.
    """
    for item in encoded.tensors:
        if is_sharded(item.tensor):
            raise BurstError(
                f"a checkpoint cannot hold {encoded.root}.{item.name} for one rank",
                why="it is a DTensor, and its elements lie on several",
                mend="keep its `to_local()`, or put it into the half that all ranks share",
            )
    with no_collection():
        return tuple(
            Chunk(index, *whole(tuple(item.tensor.shape)), item.tensor)
            for index, item in enumerate(encoded.tensors)
        )


def owned_by(optimizers: Sequence[torch.optim.Optimizer], encoded: Encoded) -> frozenset[int]:
    """Indices of the tensors that are parameters or states of these optimizers: those that are
    alike on every rank of DDP, and that change in `step` alone."""
    owned: set[int] = set()
    usual = torch.Tensor
    with torch.no_grad():
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                _add_addresses(group, owned)
            for state in optimizer.state.values():
                for value in state.values() if isinstance(state, dict) else (state,):
                    if type(value) is usual:  # nearly all of them, and training waits
                        owned.add(value.data_ptr())
                    else:
                        _add_addresses(value, owned)
    owned.discard(0)  # as is said of what has no memory
    return frozenset(i for i, item in enumerate(encoded.tensors) if item.address in owned)


def agree(encoded: Encoded, collective: Collective, alike: Collection[int] = frozenset()) -> None:
    """See that all ranks have divided the same. Collective, and cheap: it sends one digest.

    Raises:
        BurstError: on every rank, if they have not, naming the first difference.
    """
    if collective.size == 1:
        return
    structure = _structure(encoded, alike)
    mine = [
        [index, row.name, str(row.dtype), list(row.shape), _text(row, structure.meshes)]
        for index, row in enumerate(structure.rows)
        if row.alike or row.spread
    ]
    digest = hashlib.sha256(json.dumps(mine).encode()).hexdigest()
    if len(set(collective.allgather(digest))) == 1:
        return
    first, *others = collective.allgather(mine)
    for rank, other in enumerate(others, start=1):
        for index in range(max(len(first), len(other))):
            ours, theirs = (_describe(rows_, index) for rows_ in (first, other))
            if ours != theirs:
                raise BurstError(
                    f"the ranks hold different states: {encoded.root}.{ours} on rank 0, "
                    f"{encoded.root}.{theirs} on rank {rank}",
                    why="what is divided among ranks has to be the same on all of them",
                    mend="build the same models and optimizers on every rank",
                )


def _describe(table: Sequence[Sequence[Any]], index: int) -> str:
    if index >= len(table):
        return "(nothing more)"
    place, name, dtype, shape, spread = table[index]
    text = f"{name} (tensor {place}: {dtype.removeprefix('torch.')} {tuple(shape)}"
    return f"{text} {spread})" if spread else f"{text})"


def _text(row: _Row, meshes: Mapping[Any, Any]) -> str:
    return _layout(row, meshes).text if row.spread else ""


def _add_addresses(node: Any, found: set[int]) -> None:
    """Note where the tensors beneath `node` lie on this rank, and perhaps 0."""
    kind = type(node)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        found.add(node.data_ptr())
    elif isinstance(node, torch.Tensor):
        found.add(local_of(node).data_ptr())
    elif isinstance(node, dict):
        for item in node.values():
            _add_addresses(item, found)
    elif isinstance(node, list | tuple):
        for item in node:
            _add_addresses(item, found)


# --- planning ----------------------------------------------------------------------------------


_KEPT = 4
_plans: dict[Any, tuple[_Part, ...]] = {}


def _structure(encoded: Encoded, alike: Collection[int]) -> _Structure:
    out = []
    keys: dict[int, Any] = {}
    meshes: dict[Any, Any] = {}
    for index, item in enumerate(encoded.tensors):
        tensor: Any = item.tensor
        spread = None
        if is_sharded(tensor):
            mesh = tensor.device_mesh
            key = keys.get(id(mesh))
            if key is None:
                key = keys[id(mesh)] = mesh_key(mesh)
                meshes[key] = mesh
            spread = (key, tensor.placements)
        out.append(_Row(item.name, tensor.shape, tensor.dtype, index in alike, spread))
    return _Structure(tuple(out), meshes)


def _layout(row: _Row, meshes: Mapping[Any, Any]) -> Layout:
    assert row.spread is not None
    key, placements = row.spread
    return layout_of(row.shape, meshes[key], placements, row.name)


def _plan(structure: _Structure, rank: int, ranks: int) -> tuple[_Part, ...]:
    mine: list[_Part] = []
    shared: dict[Any, list[tuple[_Part, int]]] = {}
    """Parts, and their bytes, by the ranks that have copies of them."""
    seats: dict[Any, tuple[int, int]] = {}
    """This rank's place among those, and how many they are."""
    for index, row in enumerate(structure.rows):
        layout = _held(row, structure.meshes, rank, ranks)
        for part, copies in _parts(index, row, layout, rank):
            if copies == 1:
                mine.append(part)
                continue
            seats[layout.among] = (layout.copy, copies)
            size = math.prod(part.box[1]) * row.dtype.itemsize
            shared.setdefault(layout.among, []).append((part, size))
    for among, parts in shared.items():
        mine.extend(_share(parts, *seats[among]))
    return tuple(sorted(mine, key=lambda part: (part.tensor, part.box)))


def _held(row: _Row, meshes: Mapping[Any, Any], rank: int, ranks: int) -> Layout:
    """What this rank has of a tensor, and may have to write."""
    if row.spread:
        return _layout(row, meshes)
    if row.alike:
        return Layout(whole(row.shape), rank, ranks, (), "")
    return Layout(whole(row.shape) if rank == 0 else None, 0, 1, (), "")


def _parts(index: int, row: _Row, layout: Layout, rank: int) -> Iterator[tuple[_Part, int]]:
    """What this rank has, in parts, and how many ranks have each."""
    count = math.prod(row.shape)
    if not count and rank == 0:
        yield _Part(index, whole(row.shape), None), 1
    elif count and layout.box is not None:
        size = math.prod(layout.box[1]) * row.dtype.itemsize
        pieces = -(-size // SPLIT_BYTES) if layout.copies > 1 else 1
        for box in rows(layout.box, pieces):
            start = None if box == layout.box else within(box, layout.box)
            yield _Part(index, box, start), layout.copies


def _share(parts: Sequence[tuple[_Part, int]], copy: int, copies: int) -> Iterator[_Part]:
    """This copy's share: all copies' parts in a row, cut into runs of as many bytes each. So what
    belongs together comes into few files."""
    total = sum(size for _, size in parts) or 1
    before = 0
    for part, size in parts:
        if (2 * before + size) * copies // (2 * total) == copy:
            yield part
        before += size


def _chunk(part: _Part, tensor: torch.Tensor) -> Chunk:
    data = local_of(tensor)
    offsets, sizes = part.box
    if not math.prod(sizes) and tuple(data.shape) != sizes:
        data = data.new_empty(sizes)  # the shards of such a tensor have shapes of their own
    elif part.start is not None:
        data = data.narrow(0, part.start[0], sizes[0])
    return Chunk(part.tensor, offsets, sizes, data)
