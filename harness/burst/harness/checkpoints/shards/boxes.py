"""Boxes: the parts of a tensor that shards are, as offsets and sizes in each dimension.

All of this is arithmetic on tuples. Elements are counted in C order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from burst.core.checkpoints.format.boxes import Box


def overlap(one: Box, other: Box) -> Box | None:
    """What two boxes of one tensor share; None if that is nothing."""
    offsets, sizes = [], []
    for a, length, b, other_length in zip(*one, *other, strict=True):
        first, end = max(a, b), min(a + length, b + other_length)
        if end <= first:
            return None
        offsets.append(first)
        sizes.append(end - first)
    return tuple(offsets), tuple(sizes)


def within(box: Box, outer: Box) -> tuple[int, ...]:
    """Where `box` begins, counted from where `outer` does."""
    return tuple(a - b for a, b in zip(box[0], outer[0], strict=True))


def blocks(sizes: tuple[int, ...], start: int, stop: int) -> Iterator[Box]:
    """The boxes, each a contiguous run and in order, that elements `start` to `stop` of a box of
    these sizes make: at most two for each dimension but the last, and one."""
    if start >= stop:
        return
    if len(sizes) <= 1:
        yield ((start,), (stop - start,)) if sizes else ((), ())
        return
    inner = sizes[1:]
    row = math.prod(inner)
    first, head = divmod(start, row)
    last, tail = divmod(stop, row)
    if head:
        end = row if first < last else tail
        yield from _in_row(first, blocks(inner, head, end))
        first += 1
    if first < last:
        yield (first, *(0,) * len(inner)), (last - first, *inner)
    if tail and first <= last:
        yield from _in_row(last, blocks(inner, 0, tail))


def _in_row(row: int, found: Iterator[Box]) -> Iterator[Box]:
    for offsets, sizes in found:
        yield (row, *offsets), (1, *sizes)


def rows(box: Box, parts: int) -> Iterator[Box]:
    """The box cut along its first dimension into as many about equal parts, or fewer where it
    has not as many rows."""
    offsets, sizes = box
    count = min(parts, sizes[0]) if sizes else 1
    if count <= 1:
        yield box
        return
    for part in range(count):
        first, end = part * sizes[0] // count, (part + 1) * sizes[0] // count
        yield (offsets[0] + first, *offsets[1:]), (end - first, *sizes[1:])
