"""Worker processes go on with the batches and the random states that they would have had."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import pytest
import torch
from accelerate.data_loader import prepare_data_loader
from torch.utils.data import DataLoader
from transformers.trainer_utils import seed_worker

from burst.harness.errors import TrialError
from burst.harness.transformers.trainer.loading import follow
from tests.harness.transformers.loading.interrupting import (
    BufferedStream,
    PlacedStream,
    Rows,
    same,
    seed,
    train,
)

WORKERS = 2


def made(dataset: Callable[[], Any], kind: str, **more: Any) -> Any:
    more = {"num_workers": WORKERS, **more}
    rows = dataset()
    loader = DataLoader(
        rows,
        3,
        shuffle=isinstance(rows, Rows) or None,
        worker_init_fn=partial(seed_worker, num_workers=WORKERS, rank=0),
        **more,
    )
    if kind == "plain":
        return loader
    return prepare_data_loader(loader, torch.device("cpu"), put_on_device=True)


# 23 rows in batches of 3 are 8 batches by number, and 4 + 4 of two workers that read forward.
@pytest.mark.parametrize(
    ("dataset", "kind", "more", "stops"),
    [
        (Rows, "shard", {}, {3, 4, 9}),
        (Rows, "plain", {"prefetch_factor": 3}, {1, 8}),
        (Rows, "shard", {"persistent_workers": True}, {5, 8}),
        (Rows, "plain", {"persistent_workers": True}, {11}),
        (PlacedStream, "shard", {}, {3, 6}),
        (PlacedStream, "plain", {}, {7, 9}),
        (PlacedStream, "shard", {"persistent_workers": True}, {10}),
        (BufferedStream, "shard", {}, {4}),
        (BufferedStream, "plain", {"persistent_workers": True}, {10}),
    ],
)
def test_workers_go_on(
    dataset: Callable[[], Any], kind: str, more: dict[str, Any], stops: set[int]
) -> None:
    make = partial(made, dataset, kind, **more)
    assert same(train(make, followed=False), train(make, stops=stops))


@pytest.mark.slow
def test_workers_that_are_spawned_go_on() -> None:
    make = partial(made, Rows, "shard", multiprocessing_context="spawn", num_workers=1)
    assert same(train(make, epochs=1, followed=False), train(make, epochs=1, stops={4}))


def test_a_pass_that_is_broken_off_leaves_persistent_workers_as_torch_does() -> None:
    def twice(loader: Any) -> list[Any]:
        seed(1)
        found = []
        for _, batch in zip(range(3), loader, strict=False):
            found.append(batch)
        return [*found, *loader]

    alone = twice(made(Rows, "plain", persistent_workers=True))
    followed = follow(made(Rows, "plain", persistent_workers=True))
    through = twice(followed.loader)
    assert all(torch.equal(a, b) for a, b in zip(alone, through, strict=True))


def test_what_a_worker_raises_passes_through() -> None:
    followed = follow(DataLoader(Torn(), 3, num_workers=1))
    batches = iter(followed.loader)
    next(batches)
    with pytest.raises(ValueError, match="torn"):
        next(batches)


def test_rows_by_number_go_on_with_another_number_of_workers() -> None:
    def read(workers: int, state: Any = None) -> tuple[list[list[int]], Any]:
        seed(1)
        followed = follow(made(Rows, "shard", num_workers=workers))
        if state is not None:
            followed.load_state(state)
        found: list[list[int]] = []
        for batch in followed.loader:
            found.append([int(row[0]) for row in batch])
            if state is None and len(found) == 3:
                break
        return found, followed.state()

    for first, second in ((0, 2), (2, 0)):
        before, state = read(first)
        after, _ = read(second, state)
        assert sorted(chain(*before, *after)) == list(range(23))


def test_a_stream_does_not_go_on_with_another_number_of_workers() -> None:
    seed(1)
    followed = follow(made(PlacedStream, "plain"))
    next(iter(followed.loader))
    other = follow(made(PlacedStream, "plain", num_workers=0))
    other.load_state(followed.state())
    with pytest.raises(TrialError, match="2 worker"):
        next(iter(other.loader))


class Torn(Rows):
    """Rows one of which cannot be read."""

    def __getitem__(self, index: int) -> Any:
        if index == 4:
            raise ValueError("torn")
        return super().__getitem__(index)
