"""Where the elements of a shard lie in the tensor that it is a part of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Offsets and sizes, one of each a dimension."""


def whole(shape: Sequence[int]) -> Box:
    """The box that is all of a tensor."""
    return (0,) * len(shape), tuple(shape)


def inside(box: Box, shape: Sequence[int]) -> bool:
    """Whether a box has a tensor's number of dimensions and lies within it."""
    offsets, sizes = box
    return len(offsets) == len(sizes) == len(shape) and all(
        offset >= 0 and size >= 0 and offset + size <= end
        for offset, size, end in zip(offsets, sizes, shape, strict=True)
    )


def tile(boxes: Sequence[Box], shape: Sequence[int]) -> bool:
    """Whether boxes that lie inside of a tensor cover it, each element once."""
    volume = sum(math.prod(sizes) for _, sizes in boxes)
    return volume == math.prod(shape) and not any(
        _overlap(one, other) for one, other in combinations(boxes, 2)
    )


def runs(shape: Sequence[int], box: Box, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The parts of a box that lie in one row both there and in the tensor, in C order.

    Args:
        start, stop: the elements to place, counted within the box.

    Yields:
        the first element counted from `start`, the first one in the tensor, and how many.
    """
    offsets, sizes = box
    inner = _joined(shape, sizes)
    length = math.prod(sizes[inner:])
    strides = [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
    corner = sum(offset * stride for offset, stride in zip(offsets, strides, strict=True))
    at = start
    while at < stop:
        row, beyond = divmod(at, length)
        count = min(length - beyond, stop - at)
        place = corner + beyond
        for dim in reversed(range(inner)):
            row, index = divmod(row, sizes[dim])
            place += index * strides[dim]
        yield at - start, place, count
        at += count


def _joined(shape: Sequence[int], sizes: Sequence[int]) -> int:
    """The first dimension from which on a box's elements follow each other in the tensor."""
    inner = len(shape)
    while inner and all(sizes[dim] == shape[dim] for dim in range(inner, len(shape))):
        inner -= 1
    return inner


def _overlap(one: Box, other: Box) -> bool:
    return all(
        a < b + n and b < a + m
        for a, m, b, n in zip(one[0], one[1], other[0], other[1], strict=True)
    ) and bool(math.prod(one[1]) and math.prod(other[1]))
