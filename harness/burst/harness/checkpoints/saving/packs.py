"""Which parts of a state share a file, and each file as an image in memory.

A file never crosses a section of the tree (a model, an optimizer) nor mixes what is trained with
what is not, and is at most 32 MiB; larger parts have several. What is 4 MiB and more has a file of
its own, unless an optimizer trains it: that changes with every step anyway, and few files are
written faster. So the weights of a frozen layer are the same file in every checkpoint, though an
adapter's few bytes beside them change; restoring needs one file's memory, not the state's; and a
file is one part of a transfer, so its hash is the transfer's checksum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from burst.core.checkpoints.format.tensorfile import entry_of, lay_out

PACK_BYTES = 32 * 2**20
OWN_FILE_BYTES = 4 * 2**20


class Part(NamedTuple):
    """What the layout has to know of a chunk of a tensor. Two states with equal parts have the
    same layout."""

    name: str
    """Of the tensor, with the chunk's place where it is not the whole of it."""
    section: str
    dtype: str
    """As torch names it."""
    itemsize: int
    shape: tuple[int, ...]
    trained: bool
    """Whether it is known to change with every step."""

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Piece:
    """Elements `start` to `stop` of a part in C order, and their name in the file."""

    part: int
    name: str
    start: int
    stop: int
    whole: bool


Pack = tuple[Piece, ...]


def plan(parts: Sequence[Part]) -> list[Pack]:
    """The files to write. Depends on the parts alone, so that what has not changed is the same
    file again."""
    packs: list[Pack] = []
    pooled: dict[tuple[str, bool], list[Piece]] = {}
    pooled_bytes: dict[tuple[str, bool], int] = {}
    for index, part in enumerate(parts):
        pieces = _pieces(index, part)
        size = part.elements * part.itemsize
        if size >= (PACK_BYTES if part.trained else OWN_FILE_BYTES):
            packs.extend((piece,) for piece in pieces)
            continue
        pool = (part.section, part.trained)
        if pooled_bytes.get(pool, 0) + size > PACK_BYTES:
            packs.append(tuple(pooled.pop(pool)))
            pooled_bytes[pool] = 0
        pooled.setdefault(pool, []).extend(pieces)
        pooled_bytes[pool] = pooled_bytes.get(pool, 0) + size
    packs.extend(tuple(pieces) for pieces in pooled.values())
    return packs


def _pieces(index: int, part: Part) -> list[Piece]:
    count = part.elements
    if count * part.itemsize <= PACK_BYTES:
        return [Piece(index, part.name, 0, count, whole=True)]
    step = PACK_BYTES // part.itemsize
    return [
        Piece(index, f"{part.name}:{start // step}", start, min(start + step, count), whole=False)
        for start in range(0, count, step)
    ]


@dataclass(frozen=True)
class Image:
    """A safetensors file in parts: its header, and where each piece goes."""

    header: bytes
    places: tuple[tuple[Piece, int], ...]
    size: int
    """Bytes of the file."""


def lay_out_pack(pack: Pack, parts: Sequence[Part]) -> Image:
    entries = []
    for piece in pack:
        part = parts[piece.part]
        shape = part.shape if piece.whole else (piece.stop - piece.start,)
        entries.append(entry_of(piece.name, part.dtype, shape))
    header, placed = lay_out(entries)
    by_name = {piece.name: piece for piece in pack}
    places = tuple((by_name[entry.name], entry.start) for entry in placed)
    return Image(header, places, placed[-1].stop if placed else len(header))
