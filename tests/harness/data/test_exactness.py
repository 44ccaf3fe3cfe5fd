"""Augmented batches are the same for any number of workers and after every resume."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from burst.harness.data import DataLoader

BATCHES = 14  # over two epochs of 23 rows in fours


class Augmented(Dataset[dict[str, Any]]):
    """Rows with noise from every global generator, and a draw in common."""

    def __len__(self) -> int:
        return 23

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            "row": index,
            "python": random.random(),
            "numpy": np.random.rand(2),
            "torch": torch.randn(3),
        }


class Together(Augmented):
    """The same, row by row within one call."""

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        return [self[index] for index in indices]


def noisy_collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    batch: dict[str, Any] = torch.utils.data.default_collate(rows)
    return batch | {"mixup": torch.rand(()), "cut": random.random(), "at": np.random.rand()}


def add_noise(rows: dict[str, Any]) -> dict[str, Any]:
    return {"x": [x + random.random() + np.random.rand() for x in rows["x"]]}


def hugging_face() -> Any:
    return datasets.Dataset.from_dict({"x": list(range(23))}).with_transform(add_noise)


KINDS: dict[str, Any] = {
    "row by row": lambda workers: DataLoader(Augmented(), 4, shuffle=True, num_workers=workers),
    "together": lambda workers: DataLoader(
        Together(), 4, shuffle=True, num_workers=workers, collate_fn=noisy_collate
    ),
    "transform": lambda workers: DataLoader(hugging_face(), 4, True, num_workers=workers),
}


def frozen(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {name: frozen(value) for name, value in batch.items()}
    return batch.numpy().tobytes() if isinstance(batch, torch.Tensor) else batch


def trained(loader: DataLoader, position: int, number: int, rank: int = 0, ranks: int = 1) -> Any:
    source = loader.training_source(seed=11, rank=rank, ranks=ranks)
    try:
        return [frozen(batch) for batch in islice(source.batches(position), number)]
    finally:
        source.close()


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def uninterrupted(kind: str) -> Any:
    return trained(KINDS[kind](0), 0, BATCHES)


def test_no_two_batches_are_alike(uninterrupted: Any) -> None:
    assert len({repr(batch) for batch in uninterrupted}) == BATCHES


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_nothing(kind: str, uninterrupted: Any, workers: int) -> None:
    assert trained(KINDS[kind](workers), 0, BATCHES) == uninterrupted


def test_a_resume_at_any_batch_changes_nothing(kind: str, uninterrupted: Any) -> None:
    for position in range(BATCHES):
        torch.manual_seed(position)  # whatever state the resumed process is in
        resumed = trained(KINDS[kind](0), position, BATCHES - position)
        assert resumed == uninterrupted[position:], position


@pytest.mark.parametrize("position", [3, 6])
def test_a_resume_with_other_workers_changes_nothing(
    kind: str, uninterrupted: Any, position: int
) -> None:
    resumed = trained(KINDS[kind](2), position, 4)
    assert resumed == uninterrupted[position : position + 4]


def test_rows_fetched_one_by_one_are_the_same_on_any_number_of_ranks() -> None:
    whole = trained(DataLoader(Augmented(), 4, shuffle=True), 0, 5)
    loader = DataLoader(Augmented(), 2, shuffle=True)
    halves = [trained(loader, 0, 5, rank, 2) for rank in range(2)]
    for one, *parts in zip(whole, *halves, strict=True):
        for name in one:
            assert one[name] == b"".join(part[name] for part in parts)


@pytest.fixture
def generators() -> Iterator[None]:
    """Fails where a test leaves the global generators other than it found them."""

    def state() -> Any:
        numpy = np.random.get_state(legacy=False)
        return random.getstate(), repr(numpy), torch.get_rng_state().numpy().tobytes()

    before = state()
    yield
    assert state() == before


@pytest.mark.usefixtures("generators")
@pytest.mark.parametrize("workers", [0, 1])
def test_the_trainer_s_generators_are_left_alone(kind: str, workers: int) -> None:
    loader = KINDS[kind](workers)
    trained(loader, 2, 3)
    list(loader.evaluation_batches(seed=1, rank=0, ranks=1))
    list(loader)


class Failing(Augmented):
    def __getitem__(self, index: int) -> dict[str, Any]:
        random.random()
        raise ValueError("row is broken")


@pytest.mark.usefixtures("generators")
def test_a_failing_dataset_leaves_the_generators_alone_and_its_own_error_be() -> None:
    with pytest.raises(ValueError, match="row is broken"):
        list(DataLoader(Failing(), 4))


def test_evaluations_are_alike_and_unlike_training() -> None:
    loader = DataLoader(Augmented(), 4, shuffle=True)
    first, second = (
        [frozen(batch) for batch in loader.evaluation_batches(seed=1, rank=0, ranks=1)]
        for _ in range(2)
    )
    assert first == second
    plain = [frozen(batch) for batch in DataLoader(Augmented(), 4)]
    assert [b["row"] for b in first] == [b["row"] for b in plain]
    assert first[0]["torch"] != plain[0]["torch"]


def test_each_plain_iteration_is_the_next_epoch() -> None:
    loader = DataLoader(Augmented(), 4, shuffle=True)
    epochs = [[frozen(batch) for batch in loader] for _ in range(2)]
    assert epochs[0] != epochs[1]
    loader.set_epoch(0)
    assert [frozen(batch) for batch in loader] == epochs[0]
    assert len(loader) == len(epochs[0]) == 6
