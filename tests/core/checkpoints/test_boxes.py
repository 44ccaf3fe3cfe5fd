"""Where the elements of a shard lie, against NumPy's own indexing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from burst.core.checkpoints.format.boxes import Box, inside, runs, tile, whole


@st.composite
def shapes_and_boxes(draw: Any) -> tuple[tuple[int, ...], Box]:
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    offsets, sizes = [], []
    for end in shape:
        first = draw(st.integers(0, end))
        offsets.append(first)
        sizes.append(draw(st.integers(0, end - first)))
    return shape, (tuple(offsets), tuple(sizes))


@given(shapes_and_boxes(), st.data())
def test_runs_are_what_indexing_the_box_gives(found: tuple[Any, Box], data: Any) -> None:
    shape, (offsets, sizes) = found
    index = np.arange(math.prod(shape)).reshape(shape)
    box = index[tuple(slice(a, a + n) for a, n in zip(offsets, sizes, strict=True))].reshape(-1)
    start = data.draw(st.integers(0, len(box)))
    stop = data.draw(st.integers(start, len(box)))
    placed: list[int] = []
    for first, place, count in runs(shape, (offsets, sizes), start, stop):
        assert count > 0
        assert first == len(placed)
        placed.extend(range(place, place + count))
    assert placed == box[start:stop].tolist()


def test_what_lies_in_one_row_is_one_run() -> None:
    assert list(runs((8, 4), whole((8, 4)), 0, 32)) == [(0, 0, 32)]
    assert list(runs((8, 4), ((2, 0), (3, 4)), 0, 12)) == [(0, 8, 12)]
    assert len(list(runs((8, 4), ((0, 1), (8, 2)), 0, 16))) == 8


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_a_grid_of_boxes_tiles_and_no_other_does(rows: int, columns: int, data: Any) -> None:
    cut = data.draw(st.integers(0, rows))
    split = data.draw(st.integers(0, columns))
    boxes: list[Box] = [
        ((top, left), (height, width))
        for top, height in ((0, cut), (cut, rows - cut))
        for left, width in ((0, split), (split, columns - split))
    ]
    assert all(inside(box, (rows, columns)) for box in boxes)
    assert tile(boxes, (rows, columns))
    full = next(box for box in boxes if math.prod(box[1]))
    assert not tile([*boxes, full], (rows, columns))
    assert not tile([box for box in boxes if box != full], (rows, columns))


def test_a_box_that_leaves_the_tensor_is_not_inside() -> None:
    assert not inside(((0, 3), (2, 2)), (2, 4))
    assert not inside(((-1, 0), (2, 2)), (2, 4))
    assert not inside(((0,), (2,)), (2, 4))


def test_two_boxes_of_the_right_volume_that_overlap_do_not_tile() -> None:
    assert not tile([((0,), (2,)), ((1,), (2,))], (4,))
