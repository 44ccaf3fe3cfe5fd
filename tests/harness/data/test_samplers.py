"""Samplers of the user's own are used as they are, if their order can be drawn again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from burst.harness.data import DataError, DataLoader

ROWS = TensorDataset(torch.arange(22))


def seen(loader: DataLoader, position: int, number: int, rank: int = 0, ranks: int = 1) -> Any:
    source = loader.training_source(seed=2, rank=rank, ranks=ranks)
    return [batch[0].tolist() for batch in islice(source.batches(position), number)]


class FromPython(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        rows = list(range(22))
        random.shuffle(rows)
        return iter(rows)

    def __len__(self) -> int:
        return 22


class FromEpoch(FromPython):
    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.default_rng(self.epoch).permutation(22).tolist())


SAMPLERS: dict[str, Any] = {
    "random": lambda: RandomSampler(ROWS),
    "random with a generator": lambda: RandomSampler(ROWS, generator=torch.Generator()),
    "subset": lambda: SubsetRandomSampler(range(3, 14)),
    "weighted": lambda: WeightedRandomSampler([1.0] * 11 + [9.0] * 11, 22),
    "from python": FromPython,
    "from the epoch": FromEpoch,
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_goes_on_at_any_batch_in_another_process(name: str) -> None:
    def loader(batch_size: int = 4) -> DataLoader:
        return DataLoader(ROWS, batch_size, sampler=SAMPLERS[name]())

    whole = seen(loader(), 0, 13)
    assert whole[0] != whole[len(loader())]  # another order in the next epoch
    for position in range(13):
        torch.manual_seed(position)
        assert seen(loader(), position, 13 - position) == whole[position:]
    halves = [seen(loader(2), 0, 13, rank, 2) for rank in range(2)]
    pairs = zip(*halves, whole, strict=True)
    assert all(a + b == both for a, b, both in pairs if len(both) > 1)


def test_a_sampler_s_own_generator_is_left_as_it_was() -> None:
    own = torch.Generator().manual_seed(3)
    state = own.get_state()
    seen(DataLoader(ROWS, 4, sampler=RandomSampler(ROWS, generator=own)), 0, 8)
    assert torch.equal(own.get_state(), state)


def test_batch_samplers_are_dealt_batch_by_batch() -> None:
    def loader() -> DataLoader:
        return DataLoader(ROWS, batch_sampler=BatchSampler(RandomSampler(ROWS), 4, False))

    whole = seen(loader(), 0, 6)
    assert sorted(row for batch in whole for row in batch) == list(range(22))
    gang = [seen(loader(), 0, 3, rank, 2) for rank in range(2)]
    assert [batch for pair in zip(*gang, strict=True) for batch in pair] == whole
    assert seen(loader(), 1, 2, 1, 2) == gang[1][1:]
    source = loader().training_source(seed=2, rank=0, ranks=4)
    assert (source.batches_per_epoch, source.records_per_batch) == (2, 16)
    last = [seen(loader(), 1, 1, rank, 4)[0] for rank in range(4)]
    assert last == [whole[4], whole[5], whole[4], whole[5]]


class Forgetful(FromPython):
    """Keeps a generator that nobody can seed."""

    def __init__(self) -> None:
        self.own = np.random.default_rng(0)

    def __iter__(self) -> Iterator[int]:
        return iter(self.own.permutation(22).tolist())


class Endless(FromPython):
    def __iter__(self) -> Iterator[int]:
        while True:
            yield 1


class Unmeasured:
    def __iter__(self) -> Iterator[int]:
        return iter(range(22))


WRONG: dict[str, tuple[Any, str]] = {
    "a state of its own": (Forgetful, "another order each time"),
    "no end": (Endless, "more of its 22"),
    "no length": (Unmeasured, "no length"),
    "another dataset's rows": (lambda: [0, 99], "row 99, and the dataset's rows are 0 to 21"),
    "what is no row": (lambda: ["a"], "'a' where a row number is wanted"),
    "nothing": (list, "no batch"),
    "a split over ranks": (
        lambda: DistributedSampler(ROWS, num_replicas=2, rank=0),
        "splits rows over ranks",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_sampler_that_cannot_be_resumed_is_refused(name: str) -> None:
    make, message = WRONG[name]
    with pytest.raises(DataError, match=message) as error:
        seen(DataLoader(ROWS, 2, sampler=make()), 0, 1)
    assert error.value.mend


def test_an_evaluation_takes_the_sampler_s_rows() -> None:
    loader = DataLoader(ROWS, 4, sampler=SubsetRandomSampler(range(5, 9)))
    (batch,) = loader.evaluation_batches(seed=1, rank=0, ranks=1)
    assert sorted(batch[0].tolist()) == [5, 6, 7, 8]
