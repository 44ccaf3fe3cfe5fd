"""Dividing a state among ranks and putting it together again, as arithmetic on boxes."""

from __future__ import annotations

import math
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

from burst.core.checkpoints.format.boxes import whole
from burst.core.checkpoints.format.state_file import TensorRef
from burst.core.errors import BurstError
from burst.harness.checkpoints import shards
from burst.harness.checkpoints.codec import tree
from burst.harness.checkpoints.codec.sharding import box_of
from burst.harness.checkpoints.shards import division
from burst.harness.checkpoints.shards.boxes import blocks, overlap, rows, within
from burst.harness.collective import Solo
from tests.harness.checkpoints.shard_support import (
    PLACEMENTS,
    Folder,
    Seat,
    mesh_of,
    save,
    spread_out,
    world,
)
from tests.harness.checkpoints.support import Gang, same

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
    pieces: list[tuple[int, str, int]] = []
    of_piece, content = [], []
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


@given(saved(), st.integers(2, 4), st.data())
def test_a_rank_reads_its_shard_and_no_file_that_holds_nothing_of_it(
    case: Any, ranks: int, data: st.DataObject
) -> None:
    ref, tensor, content = case
    whole_tensor = torch.from_numpy(tensor)
    dim = data.draw(st.integers(0, max(0, tensor.ndim - 1)))
    placement = Shard(dim) if tensor.ndim else Replicate()
    rank = data.draw(st.integers(0, ranks - 1))
    with world(rank, ranks):
        expected = spread_out(whole_tensor, mesh_of((ranks,)), [placement])
        target = shards.spread(torch.zeros_like(expected.to_local()), expected)
        reads = shards.wanted(ref, target)
        for read in reads:
            shards.scatter(content[read.file], read, target)
        assert torch.equal(shards.local_of(target), shards.local_of(expected))
        needed = set(shards.local_of(expected).reshape(-1).tolist())
    for place, part in enumerate(content):
        holds = bool(needed & set(part.tolist()))
        assert holds == (place in {read.file for read in reads})


def test_pieces_that_do_not_make_a_tensor_whole_are_refused() -> None:
    ref = TensorRef(name="t", dtype="int32", shape=(4,), pieces=((0, "a", 0), (0, "b", 2)))
    half = ref.model_copy(update={"pieces": ref.pieces[:1], "boxes": (((0,), (2,)),)})
    assert len(shards.wanted(ref, None)) == 2
    with pytest.raises(ValueError, match="whole"):
        shards.wanted(half, None)


# --- dividing ----------------------------------------------------------------------------------


def _tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        "scalar": torch.tensor(3.0),
        "empty": torch.zeros(0, 4),
        "small": torch.rand(7, generator=generator),
        "large": torch.rand(40, 30, generator=generator),
        "permuted": torch.rand(6, 5, 4, generator=generator).permute(2, 0, 1),
        "bf16": torch.rand(300, generator=generator).to(torch.bfloat16),
        "pairs": torch.view_as_complex(torch.rand(50, 2, generator=generator)),
        "flags": torch.rand(90, generator=generator) > 0.5,
        "one row": torch.rand(1, 700, generator=generator),
    }


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(division, "SPLIT_BYTES", 512)
    division._plans.clear()


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_every_element_is_written_once_by_some_rank_and_comes_back(ranks: int) -> None:
    tensors, folder = _tensors(), Folder()
    save(folder, tensors, ranks, alike=range(2, len(tensors)))
    assert same(folder.load(), tensors)


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_what_all_ranks_hold_alike_is_shared_out_evenly(ranks: int) -> None:
    encoded = tree.encode({str(i): torch.zeros(i * 13, 3) for i in range(30)}, "shared")
    sizes = [
        sum(c.data.nbytes for c in shards.divide(encoded, Seat(rank, ranks), range(30)))
        for rank in range(ranks)
    ]
    assert sum(sizes) == sum(item.tensor.nbytes for item in encoded.tensors)
    assert max(sizes) - min(sizes) <= 2 * division.SPLIT_BYTES


def test_what_may_differ_between_ranks_is_rank_0s() -> None:
    encoded = tree.encode(_tensors(), "shared")
    assert shards.divide(encoded, Seat(1, 2)) == ()
    assert len(shards.divide(encoded, Seat(0, 2))) == len(encoded.tensors)


def test_the_data_of_a_chunk_is_the_live_memory() -> None:
    tensor = torch.zeros(4, 4)
    encoded = tree.encode([tensor], "shared")
    (chunk,) = shards.divide(encoded, Solo())
    tensor.fill_(5)
    assert chunk.data.sum() == 80


def test_parameters_and_states_of_optimizers_are_what_is_alike() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    frozen = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.rand(5, 3)).sum().backward()
    optimizer.step()
    state = {
        "models": [model.state_dict(), frozen.state_dict()],
        "optimizers": [optimizer.state_dict()],
    }
    encoded = tree.encode(state, "shared")
    names = {encoded.tensors[i].name for i in shards.owned_by([optimizer], encoded)}
    every = {item.name for item in encoded.tensors}
    running = {f"models.0.1.{n}" for n in ("running_mean", "running_var", "num_batches_tracked")}
    assert every - names == running | {"models.1.weight", "models.1.bias"}


def test_ranks_that_divided_the_same_agree_and_others_are_told_the_first_difference() -> None:
    def check(rank: Any, state: Any) -> None:
        shards.agree(tree.encode(state, "shared"), rank, range(len(state)))

    def check_own(states: list[Any], rank: Any) -> None:
        check(rank, states[rank.rank])

    alike: list[Any] = [{"a": torch.zeros(2), "b": torch.zeros(3)}] * 3
    assert Gang(3).run(partial(check_own, alike)) == [None] * 3
    others: list[Any] = [
        {"a": torch.zeros(2), "b": torch.zeros(4)},
        {"a": torch.zeros(2), "c": torch.zeros(3)},
        {"a": torch.zeros(2)},
        {"a": torch.zeros(2), "b": torch.zeros(3, dtype=torch.float64)},
    ]
    for other in others:
        states = [alike[0], alike[0], other]
        errors = Gang(3).run(partial(check_own, states))
        assert len({str(error) for error in errors}) == 1
        assert isinstance(errors[0], BurstError)
        assert "shared.b" in errors[0].what
        assert "on rank 2" in errors[0].what


def test_what_only_rank_0_holds_may_differ() -> None:
    def check(rank: Any) -> None:
        state: Any = {"a": torch.zeros(2)}
        if rank.rank == 0:
            state["history"] = [torch.zeros(1)]
        shards.agree(tree.encode(state, "shared"), rank, {0})

    assert Gang(2).run(check) == [None, None]


# --- DTensors ----------------------------------------------------------------------------------

MESHES = ((1,), (2,), (3,), (2, 2), (2, 3))


@given(st.data(), st.integers(0, 9), st.integers(1, 5))
def test_any_shards_and_copies_are_written_once_and_restored_into_any_others(
    data: st.DataObject, height: int, width: int
) -> None:
    tensor = torch.arange(float(height * width)).reshape(height, width)
    folder = Folder()
    (written, by), (wanted, to) = (data.draw(layouts()) for _ in range(2))
    ranks = math.prod(written)
    for rank in range(ranks):
        with world(rank, ranks):
            state = {"w": spread_out(tensor, mesh_of(written), by)}
            encoded = tree.encode(state, "shared")
            folder.write(encoded, shards.divide(encoded, Seat(rank, ranks)), rank)
    assert same(folder.load(), {"w": tensor})
    for rank in range(math.prod(wanted)):
        with world(rank, math.prod(wanted)):
            expected = spread_out(tensor, mesh_of(wanted), to)
            live = shards.spread(torch.full_like(expected.to_local(), -1), expected)
            back = folder.load({"w": live})
            assert back["w"] is live
            assert torch.equal(shards.local_of(live), shards.local_of(expected))


@given(st.data(), st.integers(1, 9), st.integers(1, 5))
def test_boxes_and_reads_are_those_of_torchs_own_planner(
    data: st.DataObject, height: int, width: int
) -> None:
    tensor = torch.arange(float(height * width)).reshape(height, width)
    (mesh, placements), cuts = data.draw(layouts()), data.draw(st.integers(1, 4))
    saved_boxes = list(rows(whole((height, width)), cuts))
    ref = TensorRef(
        name="t",
        dtype="float32",
        shape=(height, width),
        pieces=tuple((place, "t", 0) for place in range(len(saved_boxes))),
        boxes=tuple(saved_boxes),
    )
    chunks = [ChunkStorageMetadata(torch.Size(a), torch.Size(n)) for a, n in saved_boxes]
    properties = TensorProperties(dtype=torch.float32)
    metadata = TensorStorageMetadata(properties, torch.Size((height, width)), chunks)
    for rank in range(math.prod(mesh)):
        with world(rank, math.prod(mesh)):
            target = spread_out(tensor, mesh_of(mesh), placements)
            (theirs,) = target.__create_chunk_list__()
            ours = box_of(target)
            if ours is None:
                assert not math.prod(theirs.sizes)
                assert shards.wanted(ref, target) == []
                continue
            assert ours == (tuple(theirs.offsets), tuple(theirs.sizes))
            planned = {
                (item.storage_index.index, *map(tuple, (item.storage_offsets, item.dest_offsets)))
                for item in create_read_items_for_chunk_list("t", metadata, [theirs])
            }
            moves = [
                (read.file, move) for read in shards.wanted(ref, target) for move in read.moves
            ]
            assert {(file, move.source, move.target) for file, move in moves} == planned


@st.composite
def layouts(draw: st.DrawFn) -> Any:
    mesh = draw(st.sampled_from(MESHES))
    return mesh, [draw(st.sampled_from(PLACEMENTS)) for _ in mesh]


def test_copies_of_shards_are_shared_out_over_those_who_have_them() -> None:
    tensors = {str(i): torch.zeros(8, 8) for i in range(10)}
    sizes = []
    for rank in range(4):
        with world(rank, 4):
            mesh = mesh_of((2, 2))
            state = {
                name: spread_out(tensor, mesh, [Replicate(), Shard(0)])
                for name, tensor in tensors.items()
            }
            chunks = shards.divide(tree.encode(state, "shared"), Seat(rank, 4))
            sizes.append(sum(chunk.data.nbytes for chunk in chunks))
    assert sizes == [10 * 64 * 4 // 4] * 4


def test_shards_of_fsdp_over_tensor_parallel_layers_are_boxes() -> None:
    tensor = torch.arange(32.0).reshape(8, 4)
    folder = Folder()
    for rank in range(4):
        with world(rank, 4):
            mesh = mesh_of((2, 2))
            over, inner = mesh.get_coordinate()
            placements = [_StridedShard(0, split_factor=2), Shard(0)]
            local = tensor.chunk(2)[inner].chunk(2)[over]
            sharded = DTensor.from_local(local, mesh, placements, run_check=False)
            encoded = tree.encode({"w": sharded}, "shared")
            folder.write(encoded, shards.divide(encoded, Seat(rank, 4)), rank)
    assert same(folder.load(), {"w": tensor})


def test_what_is_no_box_or_a_part_of_a_sum_is_refused_by_name() -> None:
    with world(0, 4):
        uneven = DTensor.from_local(
            torch.zeros(2, 2),
            mesh_of((2, 2)),
            [_StridedShard(0, split_factor=2), Shard(0)],
            run_check=False,
            shape=torch.Size((7, 2)),
            stride=(2, 1),
        )
        partial = DTensor.from_local(torch.zeros(2), mesh_of((4,)), [Partial()], run_check=False)
        for tensor in (uneven, partial):
            encoded = tree.encode({"part": tensor}, "shared")
            with pytest.raises(BurstError, match="cannot hold part"):
                shards.divide(encoded, Seat(0, 4))
        with pytest.raises(BurstError, match=r"own\.part for one rank"):
            shards.undivided(tree.encode({"part": partial}, "own"))


def test_states_that_do_not_exist_yet_are_sharded_like_their_parameters() -> None:
    moment, step = torch.arange(12.0).reshape(6, 2), torch.tensor(4.0)
    saved_state = {"state": {0: {"step": step, "exp_avg": moment}}}
    folder = Folder()
    save(folder, saved_state, 1)
    for rank in range(2):
        with world(rank, 2):
            parameter = spread_out(torch.zeros(6, 2), mesh_of((2,)), [Shard(0)])
            back = folder.load({"state": {0: shards.Like(parameter)}})["state"][0]
            assert same(back["step"], step)
            assert shards.is_sharded(back["exp_avg"])
            assert torch.equal(shards.local_of(back["exp_avg"]), moment[rank * 3 : rank * 3 + 3])


def test_a_tensor_of_another_dtype_or_shape_is_not_filled() -> None:
    folder = Folder()
    save(folder, {"a": torch.ones(2), "b": torch.ones(3)}, 1)
    live = {"a": torch.zeros(2, dtype=torch.float64), "b": torch.zeros(4)}
    back = folder.load(live)
    assert same(back, {"a": torch.ones(2), "b": torch.ones(3)})
    assert not live["a"].any()
    assert not live["b"].any()


def test_memory_that_two_names_share_is_filled_once() -> None:
    folder = Folder()
    save(folder, {"a": torch.ones(2), "b": torch.full((2,), 2.0)}, 1)
    tied = torch.zeros(2)
    back = folder.load({"a": tied, "b": tied.detach()})
    assert back["a"] is tied
    assert same(back, {"a": torch.ones(2), "b": torch.full((2,), 2.0)})


def test_a_whole_tensor_is_cut_to_the_shard_of_a_live_one() -> None:
    tensor = torch.arange(10.0).reshape(5, 2)
    for rank in range(3):
        with world(rank, 3):
            live = spread_out(torch.zeros(5, 2), mesh_of((3,)), [Shard(0)])
            cut = shards.shard_like(tensor, live)
            expected = spread_out(tensor, mesh_of((3,)), [Shard(0)])
            assert torch.equal(shards.local_of(cut), shards.local_of(expected))
