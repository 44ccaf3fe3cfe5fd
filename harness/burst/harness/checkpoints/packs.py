"""Which tensors share a file, and the file as an image in memory.

A file never crosses a section of the tree (a model, an optimizer) and is at most 64 MiB. A tensor
of 4 MiB and more has its own, larger ones several, and the small ones of a section share: so the
weights of a frozen layer are the same file in every checkpoint, though an adapter's few bytes
beside them change, and saving or restoring needs one file's memory, not the state's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from burst.core.checkpoints.tensorfile import Entry, entry_of, lay_out
from burst.harness.checkpoints.tree import NamedTensor
from burst.harness.checkpoints.values import carrier_of, name_of

PACK_BYTES = 64 * 2**20
OWN_FILE_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Piece:
    """Elements `start` to `stop` of a tensor in C order, and their name in the file."""

    tensor: int
    """Its index in the tree's tensors."""
    name: str
    start: int
    stop: int
    whole: bool


Pack = tuple[Piece, ...]


def plan(tensors: Sequence[NamedTensor]) -> list[Pack]:
    """The files to write. Depends on names, sizes and order only, so that what has not changed is
    the same file again."""
    packs: list[Pack] = []
    pooled: dict[str, list[Piece]] = {}
    pooled_bytes: dict[str, int] = {}
    for index, item in enumerate(tensors):
        pieces = _pieces(index, item)
        size = item.tensor.nbytes
        if size >= OWN_FILE_BYTES:
            packs.extend((piece,) for piece in pieces)
            continue
        if pooled_bytes.get(item.section, 0) + size > PACK_BYTES:
            packs.append(tuple(pooled.pop(item.section)))
            pooled_bytes[item.section] = 0
        pooled.setdefault(item.section, []).extend(pieces)
        pooled_bytes[item.section] = pooled_bytes.get(item.section, 0) + size
    packs.extend(tuple(pieces) for pieces in pooled.values())
    return packs


def _pieces(index: int, item: NamedTensor) -> list[Piece]:
    count = item.tensor.numel()
    if item.tensor.nbytes <= PACK_BYTES:
        return [Piece(index, item.name, 0, count, whole=True)]
    step = PACK_BYTES // item.tensor.element_size()
    return [
        Piece(index, f"{item.name}:{start // step}", start, min(start + step, count), whole=False)
        for start in range(0, count, step)
    ]


@dataclass(frozen=True)
class Image:
    """A safetensors file in parts: its header, and where each piece goes."""

    header: bytes
    places: tuple[tuple[Piece, int], ...]
    size: int


def lay_out_pack(pack: Pack, tensors: Sequence[NamedTensor]) -> Image:
    entries = []
    for piece in pack:
        tensor = tensors[piece.tensor].tensor
        shape = tuple(tensor.shape) if piece.whole else (piece.stop - piece.start,)
        entries.append(entry_of(piece.name, name_of(tensor.dtype), shape))
    header, placed = lay_out(entries)
    by_name = {piece.name: piece for piece in pack}
    places = tuple((by_name[entry.name], entry.start) for entry in placed)
    return Image(header, places, placed[-1].stop if placed else len(header))


def fill(image: Image, tensors: Sequence[NamedTensor], buffer: bytearray) -> memoryview:
    """The file's bytes, in `buffer`. Tensors are copied from where they are, once."""
    buffer[: len(image.header)] = image.header
    for piece, offset in image.places:
        tensor = tensors[piece.tensor].tensor
        if piece.start == piece.stop:
            continue
        if not piece.whole:
            tensor = tensor.reshape(-1)[piece.start : piece.stop]
        if tensor.dtype is not carrier_of(tensor.dtype):
            tensor = tensor.resolve_conj().view(carrier_of(tensor.dtype))
        target = torch.frombuffer(buffer, dtype=tensor.dtype, count=tensor.numel(), offset=offset)
        target.view(tensor.shape).copy_(tensor)
    return memoryview(buffer)[: image.size]


def unpack(entry: Entry, dtype: torch.dtype, buffer: bytearray) -> torch.Tensor:
    """The elements of a file's tensor as a flat tensor of `dtype` over `buffer`, not a copy."""
    count, rest = divmod(entry.size, dtype.itemsize)
    if rest:
        raise ValueError(f"{entry.name} is no whole number of {dtype} elements")
    if count == 0:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(buffer, dtype=dtype, count=count, offset=entry.start)
