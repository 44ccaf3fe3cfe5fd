"""What to read of a checkpoint, and where it goes, whatever shards it was saved in.

A piece is a run of elements, in C order, of a tensor or of a box of it. A rank that wants a box of
the tensor takes from each piece what lies in that box, and does not read files that hold nothing
of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from burst.core.checkpoints.format.boxes import Box, whole
from burst.core.checkpoints.format.state_file import StateFile, TensorRef
from burst.core.model import Json
from burst.harness.checkpoints.codec import values
from burst.harness.checkpoints.codec.sharding import box_of, is_sharded, local_of, spread
from burst.harness.checkpoints.codec.skeletons import decode
from burst.harness.checkpoints.shards.boxes import blocks, overlap, within


class Move(NamedTuple):
    """A box of elements to copy: of a contiguous block of the piece, into the target's memory."""

    start: int
    """The block's first element, counted in the piece."""
    block: tuple[int, ...]
    """The block's sizes."""
    source: tuple[int, ...]
    """Where the box begins in the block."""
    target: tuple[int, ...]
    """Where it begins in what this rank has of the target."""
    sizes: tuple[int, ...]


class Read(NamedTuple):
    """A piece that holds something of what is wanted."""

    file: int
    """An index into the state file's `files`."""
    name: str
    """The piece's name in that file."""
    size: int
    """Elements of the piece."""
    moves: tuple[Move, ...]


def wanted(ref: TensorRef, target: torch.Tensor | None) -> list[Read]:
    """The pieces to read for what this rank has of `target`: a DTensor's shard, else all of it.

    Args:
        target: of the shape of `ref`; None stands for a plain tensor of it.

    Raises:
        ValueError: if the pieces do not make that whole.
    """
    box = whole(ref.shape) if target is None else box_of(target)
    size = 0 if box is None else math.prod(box[1])
    if box is None or not size:
        return []
    if len(ref.pieces) == 1 and ref.boxes is None and box[1] == ref.shape:
        (file, name, start), (origin, sizes) = ref.pieces[0], box
        if not start:  # the usual case, of all of a tensor in one piece
            return [Read(file, name, size, (Move(0, sizes, origin, origin, sizes),))]
    reads = []
    found = 0
    for piece, (outer, start, stop) in zip(ref.pieces, _spans(ref), strict=True):
        moves = tuple(_moves(outer, start, stop, box))
        if moves:
            found += sum(math.prod(move.sizes) for move in moves)
            reads.append(Read(piece[0], piece[1], stop - start, moves))
    if found != size:
        raise ValueError(f"the pieces of {ref.name} do not make it whole")
    return reads


def scatter(piece: Any, read: Read, target: torch.Tensor) -> None:
    """Copy what is wanted of a piece into this rank's memory of `target`.

    Args:
        piece: a writable buffer of the bytes of the piece, aligned to its elements.
        target: of the dtype that was saved; a Parameter or a DTensor may be given.
    """
    if torch.is_grad_enabled():
        with torch.no_grad():
            return scatter(piece, read, target)
    into = local_of(target)
    carrier = values.carrier_of(into.dtype)
    if carrier is not into.dtype:
        into = into.view(carrier)
    flat = torch.frombuffer(piece, dtype=carrier, count=read.size)
    for move in read.moves:
        if read.size == into.numel() and move.sizes == move.block == into.shape:
            into.copy_(flat.view(move.block))
            continue
        end = move.start + math.prod(move.block)
        block = flat[move.start : end].view(move.block)
        taken = block[_slices(move.source, move.sizes)]
        into[_slices(move.target, move.sizes)].copy_(taken)


def empty(ref: TensorRef) -> torch.Tensor:
    """Memory for the whole of a tensor, on the CPU, to be filled and to be given back."""
    dtype = values.dtype_of(ref.dtype)
    carrier = values.carrier_of(dtype)
    if ref.stride is None:
        return torch.empty(ref.shape, dtype=carrier).view(dtype)
    return torch.empty_strided(ref.shape, ref.stride, dtype=carrier).view(dtype)


def _slices(offsets: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(first, first + n) for first, n in zip(offsets, sizes, strict=True))


def _spans(ref: TensorRef) -> list[tuple[Box, int, int]]:
    """Of each piece, the box that it belongs to, and its first element and the one after its last,
    counted in the box. Where one ends is where the next of its box begins."""
    boxes = [(tuple(a), tuple(n)) for a, n in ref.boxes] if ref.boxes is not None else None
    outer = boxes or [whole(ref.shape)] * len(ref.pieces)
    starts: dict[Box, list[int]] = {}
    for box, (_, _, start) in zip(outer, ref.pieces, strict=True):
        starts.setdefault(box, []).append(start)
    ends: dict[tuple[Box, int], int] = {}
    for box, of_box in starts.items():
        of_box.sort()
        ends |= {
            (box, a): b for a, b in zip(of_box, [*of_box[1:], math.prod(box[1])], strict=True)
        }
    return [
        (box, start, ends[box, start])
        for box, (_, _, start) in zip(outer, ref.pieces, strict=True)
    ]


def _moves(outer: Box, start: int, stop: int, target: Box) -> Iterator[Move]:
    if overlap(outer, target) is None:
        return
    done = 0
    for offsets, sizes in blocks(outer[1], start, stop):
        block = (tuple(a + b for a, b in zip(outer[0], offsets, strict=True)), sizes)
        common = overlap(block, target)
        if common is not None:
            yield Move(done, sizes, within(common, block), within(common, target), common[1])
        done += math.prod(sizes)


# --- where it goes -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Like:
    """In a tree of targets: every tensor beneath it that has the shape of this one is spread over
    the ranks as this one is. For states that an optimizer has not made yet."""

    tensor: torch.Tensor

    def target(self, ref: TensorRef) -> torch.Tensor | None:
        """New memory for such a tensor; None if a plain one will do."""
        if not is_sharded(self.tensor) or tuple(self.tensor.shape) != ref.shape:
            return None
        local = local_of(self.tensor)
        return spread(torch.empty_like(local, dtype=values.dtype_of(ref.dtype)), self.tensor)


def targets(state: StateFile, into: Any) -> list[torch.Tensor | None]:
    """For each tensor of a half, the one in `into` to fill; None where new memory is needed.

    Args:
        into: a tree shaped like (a part of) the one that was saved, with live tensors or `Like`.
            Those of another dtype or shape are left alone, and memory is filled but once.
    """
    found: dict[int, torch.Tensor] = {}
    taken: set[Any] = set()
    for index, node in _pairs(state.tree, into):
        if index in found:
            continue
        ref = state.tensors[index]
        if isinstance(node, Like):
            made = node.target(ref)
            if made is not None:
                found[index] = made
        elif isinstance(node, torch.Tensor) and _fits(ref, node):
            local = local_of(node)
            place = (local.device, local.data_ptr())
            if not local.numel() or place not in taken:
                taken.add(place)
                found[index] = node
    return [found.get(index) for index in range(len(state.tensors))]


def _fits(ref: TensorRef, tensor: torch.Tensor) -> bool:
    plain = tensor.layout is torch.strided and not tensor.is_meta
    bits = is_sharded(tensor) or not (tensor.is_conj() or tensor.is_neg())
    dtype = str(tensor.dtype).removeprefix("torch.")
    return plain and bits and dtype == ref.dtype and tuple(tensor.shape) == ref.shape


def _pairs(node: Json, into: Any) -> Iterator[tuple[int, Any]]:
    """The tensors of a skeleton with what `into` has in their place, if it has something."""
    if into is None:
        return
    kind, parts = _mark(node)
    if kind in ("tensor", "parameter"):
        yield parts[0], into
        return
    for key, child in _children(kind, parts, node):
        beneath = into if isinstance(into, Like) else _item(into, key)
        yield from _pairs(child, beneath)


def _mark(node: Json) -> tuple[str, list[Any]]:
    if isinstance(node, dict) and "$" in node:
        kind, *parts = node["$"]
        return kind, parts
    return "", []


def _children(kind: str, parts: Sequence[Any], node: Json) -> Iterator[tuple[Any, Json]]:
    if kind in ("ordered", "dict"):
        for key, child in parts[0]:
            yield decode(key, ()), child
    elif kind == "tuple":
        yield from enumerate(parts)
    elif kind == "" and isinstance(node, list):
        yield from enumerate(node)
    elif kind == "" and isinstance(node, dict):
        yield from node.items()


def _item(into: Any, key: Any) -> Any:
    if isinstance(into, Mapping):
        return into.get(key)
    if isinstance(into, list | tuple) and isinstance(key, int) and key < len(into):
        return into[key]
    return None
