"""Which generators a row draws from is learnt without changing what it draws."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import islice
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from burst.harness.data import DataLoader
from burst.harness.data.seeding import Seeding

ROWS = 200

DRAWS: dict[str, Callable[[], Any]] = {
    "python": random.random,
    "python's gauss": lambda: random.gauss(0, 1),
    "numpy": np.random.rand,
    "numpy's normal": np.random.randn,
    "torch": lambda: float(torch.rand(())),
    "torch's seed alone": torch.initial_seed,
}


class Seldom(Dataset[Any]):
    """Draws in its late rows only, long after a loader thinks that it knows."""

    def __init__(self, draw: Callable[[], Any], first: int) -> None:
        self.draw = draw
        self.first = first
        self.fetched: list[int] = []

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> Any:
        self.fetched.append(index)
        return index, self.draw() if index >= self.first else None


def rows(dataset: Any, position: int = 0) -> list[Any]:
    loader = DataLoader(dataset, 10, collate_fn=list)
    source = loader.training_source(seed=1, rank=0, ranks=1)
    return [row for batch in islice(source.batches(position), 40 - position) for row in batch]


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_that_is_drawn_from_late_was_seeded_for_every_row(name: str) -> None:
    np.random.randn()  # leaves a second normal number behind, which no row may get
    whole = rows(Seldom(DRAWS[name], 150))
    assert len({draw for _, draw in whole if draw is not None}) == 100
    for position in (14, 15, 17, 34, 37):
        assert rows(Seldom(DRAWS[name], 150), position) == whole[position * 10 :]


def test_a_batch_is_fetched_again_only_where_a_new_generator_moved() -> None:
    quiet = Seldom(random.random, ROWS)
    rows(quiet)
    assert quiet.fetched == [*range(ROWS)] * 2
    noisy = Seldom(random.random, 0)
    rows(noisy)
    assert noisy.fetched == [*range(ROWS)] * 2
    late = Seldom(random.random, 150)
    rows(late)
    again = [*range(150, 160)]
    assert late.fetched == [*range(160), *again, *range(160, ROWS), *range(ROWS)]


def test_what_fails_by_chance_fails_at_the_same_row_after_a_resume() -> None:
    def fail_now_and_then() -> None:
        if random.random() < 0.03:
            raise ValueError("bad luck")

    def failing_row(position: int) -> int:
        dataset = Seldom(fail_now_and_then, 150)
        with pytest.raises(ValueError, match="bad luck"):
            rows(dataset, position)
        return dataset.fetched[-1]

    row = failing_row(0)
    assert {failing_row(position) for position in range(15, row // 10 + 1)} == {row}


def test_a_loader_s_work_can_be_handed_to_a_spawned_process() -> None:
    fetch = DataLoader([1, 2])._fetcher(0)
    assert ForkingPickler.loads(ForkingPickler.dumps(fetch)).dataset == [1, 2]
    seeding = Seeding()
    seeding.run(lambda seed: seed(1))
    assert isinstance(ForkingPickler.loads(ForkingPickler.dumps(seeding)), Seeding)
