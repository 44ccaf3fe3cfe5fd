"""Gathering from Arrow gives what Hugging Face's own torch format gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils.data import ConcatDataset, Subset, TensorDataset, random_split

from burst.harness.data import DataError, DataLoader, Padding
from burst.harness.data.collate import stack_rows
from burst.harness.data.gather import gather_of

ROWS = 57


def columns() -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {
        "int64": random.integers(-9, 9, ROWS),
        "int32": random.integers(-9, 9, ROWS).astype(np.int32),
        "uint16": random.integers(0, 9, ROWS).astype(np.uint16),
        "uint8": random.integers(0, 255, ROWS).astype(np.uint8),
        "float64": random.random(ROWS),
        "float32": random.random(ROWS).astype(np.float32),
        "float16": pa.array(random.random(ROWS).astype(np.float16)),
        "bool": random.random(ROWS) < 0.5,
        "text": [f"wörd {i}" for i in range(ROWS)],
        "lists": [row.tolist() for row in random.integers(0, 99, (ROWS, 5))],
        "flags": [row.tolist() for row in random.random((ROWS, 3)) < 0.5],
        "nested": [row.tolist() for row in random.random((ROWS, 2, 3))],
        "fixed": pa.FixedSizeListArray.from_arrays(pa.array(random.random(ROWS * 4)), 4),
        "large": pa.array([[i, i + 1] for i in range(ROWS)], pa.large_list(pa.int16())),
    }


def in_one_chunk() -> datasets.Dataset:
    return datasets.Dataset(pa.table(columns()))


def in_many_chunks() -> datasets.Dataset:
    table = pa.table(columns())
    pieces = [table.slice(start, 10) for start in range(0, ROWS, 10)]
    apart = [
        pa.Table.from_pydict({n: p[n].combine_chunks() for n in p.column_names}) for p in pieces
    ]
    return datasets.Dataset(pa.concat_tables(apart))


def with_columns_cut_differently() -> datasets.Dataset:
    table = in_many_chunks().data.table
    return datasets.Dataset(table.append_column("whole", pa.array(range(ROWS))))


SHAPES: dict[str, Any] = {
    "one chunk": in_one_chunk,
    "many chunks": in_many_chunks,
    "chunks that differ": with_columns_cut_differently,
    "a slice": lambda: datasets.Dataset(pa.table(columns()).slice(7, 40)),
    "selected": lambda: in_many_chunks().select([5, 3, 50, 3, 20, 41]),
    "shuffled": lambda: in_many_chunks().shuffle(seed=1),
    "shuffled twice": lambda: in_one_chunk().shuffle(seed=1).filter(lambda r: r["int64"] > 0),
    "put together": lambda: datasets.concatenate_datasets([in_one_chunk(), in_many_chunks()]),
    "some columns": lambda: in_one_chunk().with_format("torch", columns=["bool", "int32"]),
    "unflagged": lambda: in_one_chunk().select_columns(["text", "nested"]),
}


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        if isinstance(value, torch.Tensor):
            assert ours[name].dtype == value.dtype, name
            assert torch.equal(ours[name], value), name
        else:
            assert ours[name] == value, name


@pytest.mark.parametrize("shape", SHAPES)
def test_gathered_rows_equal_the_torch_format(shape: str) -> None:
    dataset = SHAPES[shape]()
    gather = gather_of(dataset)
    assert gather is not None
    rows = np.random.default_rng(1).permutation(len(dataset))
    for part in (rows, rows[:1], rows[3:6], rows[::-1]):
        theirs = dataset.with_format("torch", columns=dataset.format["columns"])
        same(gather.batch(part), theirs[part.tolist()])


def test_a_dataset_on_disk_is_gathered_from_its_map(tmp_path: Path) -> None:
    source = datasets.Dataset.from_dict({"x": np.arange(300).reshape(100, 3), "t": ["a"] * 100})
    mapped = source.map(
        lambda row: {"y": sum(row["x"])},
        writer_batch_size=7,
        cache_file_name=str(tmp_path / "mapped.arrow"),
    )
    assert mapped.data.table.column("y").num_chunks > 5
    gather = gather_of(mapped)
    assert gather is not None
    rows = np.random.default_rng(1).permutation(100)
    same(gather.batch(rows), mapped.with_format("torch")[rows.tolist()])


def test_arrays_of_fixed_shape_are_gathered() -> None:
    features = datasets.Features({"image": datasets.Array2D((4, 5), "uint8")})
    images = np.random.default_rng(0).integers(0, 255, (9, 4, 5)).astype(np.uint8)
    dataset = datasets.Dataset.from_dict({"image": images}, features=features)
    gather = gather_of(dataset)
    assert gather is not None
    assert torch.equal(
        gather.batch(np.array([8, 0]))["image"], torch.tensor(images[[8, 0]]).long()
    )


def test_a_transform_of_the_user_runs() -> None:
    dataset = in_one_chunk().with_transform(lambda rows: {"twice": [2 * x for x in rows["int64"]]})
    assert gather_of(dataset) is None
    (batch,) = DataLoader(dataset, ROWS)
    assert batch["twice"].tolist() == [2 * x for x in columns()["int64"]]


def test_a_feature_that_is_decoded_is_left_to_its_dataset() -> None:
    features = datasets.Features({"image": datasets.Image()})
    stored = pa.array([{"bytes": b"", "path": ""}], datasets.Image().pa_type)
    info = datasets.DatasetInfo(features=features)
    assert gather_of(datasets.Dataset(pa.table({"image": stored}), info=info)) is None


def test_a_column_of_another_kind_is_left_to_its_dataset() -> None:
    dataset = datasets.Dataset.from_dict({"words": [["a"], ["b"]], "at": [{"x": 1}, {"x": 2}]})
    assert gather_of(dataset) is None
    (batch,) = DataLoader(dataset, 2)
    assert batch["at"]["x"].tolist() == [1, 2]


def test_a_format_of_the_user_is_kept() -> None:
    dataset = in_one_chunk().select_columns(["float64"])
    for form in (
        {"type": "numpy", "dtype": np.float64},
        {"type": "torch", "dtype": torch.float64},
    ):
        (batch,) = DataLoader(dataset.with_format(**form), ROWS)
        assert batch["float64"].dtype == torch.float64


def test_a_collate_function_is_given_the_rows_as_the_dataset_gives_them() -> None:
    dataset = datasets.Dataset.from_dict({"ids": [[1], [2, 3]]})
    batches = list(DataLoader(dataset, 2, collate_fn=lambda rows: rows))
    assert batches == [[{"ids": [1]}, {"ids": [2, 3]}]]


def test_missing_numbers_are_refused_by_the_column_s_name() -> None:
    dataset = datasets.Dataset.from_dict({"good": [1, 2], "bad": [1, None]})
    with pytest.raises(DataError, match="'bad' has 1 missing"):
        list(DataLoader(dataset, 2))


def test_a_missing_text_is_none() -> None:
    dataset = datasets.Dataset.from_dict({"text": ["a", None]})
    assert list(DataLoader(dataset, 2)) == [{"text": ["a", None]}]


def test_lists_of_several_lengths_ask_for_padding() -> None:
    dataset = datasets.Dataset.from_dict({"ids": [[1], [2, 3]]})
    with pytest.raises(DataError, match="'ids' holds lists of several lengths") as error:
        list(DataLoader(dataset, 2))
    assert "Padding" in error.value.mend


@pytest.mark.parametrize("chunk", [100, 2])
def test_padding_while_gathering_equals_padding_of_rows(chunk: int) -> None:
    ids = [[1], [2, 3, 4], [], [5, 6], [7]]
    table = pa.table(
        {"ids": pa.array(ids, pa.list_(pa.int64())), "y": range(5), "t": list("abcde")}
    )
    pieces = [table.slice(i, chunk) for i in range(0, 5, chunk)]
    dataset = datasets.Dataset(pa.concat_tables(pieces))
    padding = Padding({"ids": -100})
    gather = gather_of(dataset, padding)
    assert gather is not None
    rows = np.array([4, 1, 2, 0, 3])
    ours = gather.batch(rows)
    same(ours, padding(dataset.__getitems__(rows.tolist())))
    assert ours["ids"].tolist() == [
        [7, -100, -100],
        [2, 3, 4],
        [-100] * 3,
        [1, -100, -100],
        [5, 6, -100],
    ]


def test_rows_of_tensors_and_of_subsets_are_gathered() -> None:
    tensors = TensorDataset(torch.randn(20, 3), torch.arange(20))
    part, _ = random_split(tensors, [15, 5], generator=torch.Generator().manual_seed(0))
    nested = Subset(part, [3, 1, 2])
    gather = gather_of(nested)
    assert gather is not None
    ours, theirs = gather.batch(np.array([2, 0])), stack_rows([nested[2], nested[0]])
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_datasets_with_code_of_their_own_are_not_gathered() -> None:
    class Noisy(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index)  # type: ignore[no-untyped-call]

    tensors = Noisy(torch.arange(4))
    assert gather_of(tensors) is None
    assert gather_of(Subset(tensors, [0])) is None
    assert gather_of(ConcatDataset([tensors])) is None
    assert gather_of(Subset(TensorDataset(torch.arange(4)), [-1])) is None


@pytest.mark.parametrize("odd", [False, True])
def test_padded_types_do_not_depend_on_whether_rows_are_gathered(odd: bool) -> None:
    values: dict[str, Any] = {"x": [0.5, 1.5], "ids": [[1.0], [2.0, 3.0]], "t": ["a", "b"]}
    if odd:
        values["words"] = [["a"], ["b"]]  # a kind that is left to the dataset
    dataset = datasets.Dataset.from_dict(values)
    assert (gather_of(dataset, Padding()) is None) == odd
    (batch,) = DataLoader(dataset, 2, collate_fn=Padding())
    assert batch.get("words", [["a"], ["b"]]) == [["a"], ["b"]]
    assert (batch["x"].dtype, batch["ids"].dtype) == (torch.float32, torch.float32)
    assert batch["ids"].tolist() == [[1.0, 0.0], [2.0, 3.0]]
    assert batch["t"] == ["a", "b"]
