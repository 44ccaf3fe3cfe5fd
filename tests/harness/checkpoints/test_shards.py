"""Dividing a state among ranks and putting it together again, as arithmetic on boxes."""

from __future__ import annotations

import math
from itertools import chain, pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from burst.core.checkpoints.state_file import TensorRef
from burst.harness.checkpoints import shards
from burst.harness.checkpoints.shards_boxes import blocks, overlap, rows, whole, within

SHAPES = st.lists(st.integers(1, 5), max_size=4).map(tuple)


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A box of a tensor of this shape."""
    offsets, sizes = [], []
    for size in shape:
        first = draw(st.integers(0, size - 1))
        offsets.append(first)
        sizes.append(draw(st.integers(1, size - first)))
    return tuple(offsets), tuple(sizes)


def marked(shape: tuple[int, ...], box: Any) -> np.ndarray[Any, Any]:
    """Ones where the box is."""
    array = np.zeros(shape, dtype=np.int64)
    array[tuple(slice(a, a + n) for a, n in zip(*box, strict=True))] = 1
    return array


@given(st.data(), SHAPES)
def test_what_two_boxes_share_is_what_both_slices_hold(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    one, other = data.draw(boxes(shape)), data.draw(boxes(shape))
    both = marked(shape, one) * marked(shape, other)
    found = overlap(one, other)
    if found is None:
        assert not both.any()
    else:
        assert (marked(shape, found) == both).all()
        assert min(within(found, one), default=0) >= 0


@given(st.data(), SHAPES)
def test_a_run_of_elements_is_its_blocks_in_order(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    count = math.prod(shape)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    order = np.arange(count).reshape(shape)
    taken = [
        order[tuple(slice(a, a + n) for a, n in zip(*block, strict=True))].reshape(-1).tolist()
        for block in blocks(shape, start, stop)
    ]
    assert list(chain.from_iterable(taken)) == list(range(start, stop))
    assert len(taken) <= 2 * max(0, len(shape) - 1) + 1


@given(SHAPES, st.integers(1, 7))
def test_rows_cut_a_box_into_about_equal_parts(shape: tuple[int, ...], parts: int) -> None:
    cut = list(rows(whole(shape), parts))
    assert sum(marked(shape, box) for box in cut).min() == 1  # type: ignore[union-attr]
    assert len(cut) == (min(parts, shape[0]) if shape else 1)
    if shape:
        lengths = [sizes[0] for _, sizes in cut]
        assert max(lengths) - min(lengths) <= 1


# --- reading -----------------------------------------------------------------------------------


@st.composite
def saved(draw: st.DrawFn) -> tuple[TensorRef, np.ndarray[Any, Any], list[np.ndarray[Any, Any]]]:
    """A tensor saved in a grid of boxes, each in pieces; with the pieces' bytes."""
    shape = draw(SHAPES)
    tensor = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    grid = [whole(shape)]
    sharded = draw(st.booleans())
    if sharded:
        for dim in range(len(shape)):
            cuts = sorted(draw(st.sets(st.integers(1, max(1, shape[dim] - 1)), max_size=2)))
            cuts = [cut for cut in cuts if cut < shape[dim]]
            grid = [part for box in grid for part in _cut(box, dim, cuts)]
    pieces, of_piece, content = [], [], []
    for box in grid:
        inside = tensor[tuple(slice(a, a + n) for a, n in zip(*box, strict=True))].reshape(-1)
        starts = sorted({0, *draw(st.sets(st.integers(0, inside.size - 1), max_size=2))})
        for start, stop in zip(starts, [*starts[1:], inside.size], strict=True):
            pieces.append((len(pieces), f"piece {len(pieces)}", start))
            of_piece.append(box)
            content.append(inside[start:stop].copy())
    order = draw(st.permutations(range(len(pieces))))
    ref = TensorRef(
        name="t",
        dtype="int32",
        shape=shape,
        pieces=tuple((place, pieces[i][1], pieces[i][2]) for place, i in enumerate(order)),
        boxes=tuple(of_piece[i] for i in order) if sharded else None,
    )
    return ref, tensor, [content[i] for i in order]


def _cut(box: Any, dim: int, cuts: list[int]) -> list[Any]:
    offsets, sizes = box
    edges = [0, *cuts, sizes[dim]]
    return [
        (
            (*offsets[:dim], first, *offsets[dim + 1 :]),
            (*sizes[:dim], end - first, *sizes[dim + 1 :]),
        )
        for first, end in pairwise(edges)
    ]


@given(saved())
def test_a_tensor_saved_in_any_shards_comes_back_whole(case: Any) -> None:
    ref, tensor, content = case
    target = shards.empty(ref)
    for read in shards.wanted(ref, None):
        assert len(content[read.file]) == read.size
        shards.scatter(content[read.file], read, target)
    assert target.numpy().tobytes() == tensor.tobytes()
