"""The loader's arguments, its errors and its name for the data."""

from __future__ import annotations

from itertools import islice
from typing import Any

import datasets
import pytest
import torch
import torch.utils.data as torch_data
from torch.utils.data import TensorDataset

from burst.harness.data import DataError, DataLoader

ROWS = TensorDataset(torch.arange(10))


class Unmeasured:
    def __getitem__(self, index: int) -> int:
        return index


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no rows": ({"dataset": []}, "is empty"),
    "no length": ({"dataset": Unmeasured()}, "Unmeasured has no length"),
    "an empty batch": ({"batch_size": 0}, "batch_size is 0"),
    "a batch of True": ({"batch_size": True}, "batch_size is True"),
    "half a batch": ({"batch_size": 0.5}, "batch_size is 0.5"),
    "negative workers": ({"num_workers": -1}, "num_workers is -1"),
    "two orders": ({"shuffle": True, "sampler": [1]}, "both give the order"),
    "two batchings": ({"batch_sampler": [[1]], "batch_size": 2}, "leaves no room"),
    "nothing to drop": ({"batch_size": None, "drop_last": True}, "means nothing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_arguments_that_give_no_batch_are_refused_at_once(name: str) -> None:
    arguments, message = WRONG[name]
    with pytest.raises(DataError, match=message) as error:
        DataLoader(**({"dataset": ROWS} | arguments))
    assert error.value.mend


def test_fewer_rows_than_a_batch_are_refused_only_where_they_are_dropped() -> None:
    loader = DataLoader(ROWS, 4, drop_last=True)
    loader.training_source(seed=0, rank=0, ranks=2)
    with pytest.raises(DataError, match="no batch of 12 rows") as error:
        loader.training_source(seed=0, rank=0, ranks=3)
    assert "3 ranks" in error.value.why
    (batch,) = DataLoader(ROWS, 40)
    assert len(batch[0]) == 10


def test_rows_that_do_not_stack_are_named() -> None:
    rows = [{"x": torch.zeros(2)}, {"x": torch.zeros(3)}]
    with pytest.raises(DataError, match="2 rows cannot be stacked") as error:
        list(DataLoader(rows, 2))
    assert error.value.why == "the rows' 'x' have different shapes: (2,), (3,)"
    assert "Padding" in error.value.mend


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 3},
        {"batch_size": 3, "drop_last": True},
        {"batch_size": None},
        {"batch_sampler": [[1, 2], [0]]},
        {"sampler": [4, 4, 1]},
        {"batch_size": 2, "collate_fn": list},
    ],
)
def test_plain_iteration_is_torch_s(arguments: dict[str, Any]) -> None:
    dataset: Any = [{"x": float(i), "y": [i, i + 1]} for i in range(10)]
    ours = DataLoader(dataset, **arguments)
    theirs: Any = torch_data.DataLoader(dataset, **arguments)
    assert len(ours) == len(theirs)
    assert repr(list(ours)) == repr(list(theirs))


def test_a_generator_gives_plain_iteration_its_seed() -> None:
    def order(seed: int) -> list[int]:
        loader = DataLoader(ROWS, 10, True, generator=torch.Generator().manual_seed(seed))
        return [row for (batch,) in loader for row in batch.tolist()]

    assert order(1) == order(1) != order(2)


def test_the_fingerprint_names_data_and_order_and_neither_workers_nor_ranks() -> None:
    first = datasets.Dataset.from_dict({"x": [1, 2, 3, 4]})
    other = datasets.Dataset.from_dict({"x": [1, 2, 3, 5]})

    def name(dataset: Any, seed: int = 0, ranks: int = 1, batch: int = 2, **more: Any) -> str:
        loader = DataLoader(dataset, batch, **more)
        return loader.training_source(seed=seed, rank=0, ranks=ranks).fingerprint()

    assert name(first) == name(first, num_workers=2) == name(first, ranks=2, batch=1)
    different = {
        name(first),
        name(other),
        name(first, seed=1),
        name(first, shuffle=True),
        name(first, batch=1),
        name([1, 2, 3, 4]),
    }
    assert len(different) == 6


def test_a_position_before_the_first_is_refused() -> None:
    source = DataLoader(ROWS).training_source(seed=0, rank=0, ranks=1)
    with pytest.raises(DataError, match="no batch at position -1"):
        source.batches(-1)


def test_a_position_counts_global_batches_over_all_epochs() -> None:
    source = DataLoader(ROWS, 4, shuffle=True).training_source(seed=0, rank=0, ranks=1)
    assert (source.batches_per_epoch, source.records_per_batch) == (3, 4)
    far = next(source.batches(3 * 10**9 + 1))[0]
    assert len(far) == 4
    sizes = [len(batch[0]) for batch in islice(source.batches(0), 6)]
    assert sizes == [4, 4, 2] * 2
