"""The data loader beside torch's, over the same Hugging Face dataset: rows a second, and what it
costs to enter the data in its middle."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import torch
import torch.utils.data as torch_data

from benchmarks.result import Result
from burst.harness.data import DataLoader, Padding

ROWS = 1_000_000
VALUES = 32
BATCH = 64
ROUNDS = 3


def measure() -> list[Result]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [*_rates(), *_entering()]
    finally:
        torch.set_num_threads(threads)


def _rates() -> Iterator[Result]:
    whole, chunked = _dataset(), _dataset(chunk=1000)
    theirs, source, plain, pieces = _paired(
        lambda: _torch(whole.with_format("torch")),
        lambda: _source(DataLoader(whole, BATCH, shuffle=True)),
        lambda: DataLoader(whole, BATCH, shuffle=True),
        lambda: _source(DataLoader(chunked, BATCH, shuffle=True)),
    )
    against = f"torch DataLoader, 0 workers: {theirs:,.0f} rows/s"
    yield _faster("rows through the training source", source, theirs, against, 12)
    yield _faster("rows in a plain loop", plain, theirs, against, 40)
    yield _faster("rows of a table in 1,000 chunks", pieces, theirs, against, 12)

    ragged = _ragged()
    theirs, padded = _paired(
        lambda: _torch(ragged.with_format("torch"), Padding()),
        lambda: _source(DataLoader(ragged, BATCH, shuffle=True, collate_fn=Padding())),
    )
    against = f"torch DataLoader, same collate_fn: {theirs:,.0f} rows/s"
    yield _faster("ragged rows, padded", padded, theirs, against, 12)

    user = _Augmented()
    theirs, ours = _paired(
        lambda: _torch(user), lambda: _source(DataLoader(user, BATCH, shuffle=True))
    )
    yield Result(
        "rows of a user's own dataset, augmented",
        f"{ours:,.0f} rows/s",
        f"torch DataLoader, 0 workers: {theirs:,.0f} rows/s",
        ours / theirs,
        "",
        None,
        note="what it costs that every row has random numbers of its own, the same for any "
        "number of workers and after every resume; it is the same for a row of any size",
    )


def _entering() -> Iterator[Result]:
    """The time from asking a new source for row n to having its batch."""
    loader = DataLoader(_dataset(), BATCH, shuffle=True)
    batches = ROWS // BATCH
    positions = [0, batches // 10, batches // 2, batches - 1, batches * 1000 + 7]
    times: dict[int, list[float]] = {position: [] for position in positions}
    # A seed for each round: how often a place has to be looked up again is the luck of its order.
    for seed in range(25):
        for position in positions:
            source = loader.training_source(seed=seed, rank=0, ranks=1)
            began = time.perf_counter()
            next(source.batches(position))
            times[position].append(time.perf_counter() - began)
    start, *others = (statistics.median(times[position]) for position in positions)
    for position, other in zip(positions[1:], others, strict=True):
        ratio = other / start
        yield Result(
            f"first batch at row {position * BATCH:,}",
            f"{other * 1e3:.2f} ms",
            f"at row 0: {start * 1e3:.2f} ms",
            ratio,
            "≤ 1.20×",
            ratio <= 1.2,
        )


def _faster(what: str, ours: float, theirs: float, against: str, times: int) -> Result:
    ratio = ours / theirs
    return Result(what, f"{ours:,.0f} rows/s", against, ratio, f"≥ {times}×", ratio >= times)


def _paired(*loaders: Callable[[], Iterable[Any]]) -> list[float]:
    """Rows a second of each, by turns so that a noisy moment meets all of them."""
    rates: list[list[float]] = [[] for _ in loaders]
    for _ in range(ROUNDS):
        for loader, found in zip(loaders, rates, strict=True):
            found.append(_rate(iter(loader())))
    return [statistics.median(found) for found in rates]


def _rate(batches: Iterator[Any], seconds: float = 0.7) -> float:
    next(batches)
    number, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        if next(batches, None) is None:
            break
        number += 1
    return number * BATCH / took


def _source(loader: DataLoader) -> Iterator[Any]:
    return loader.training_source(seed=0, rank=0, ranks=1).batches(0)


def _torch(dataset: Any, collate: Any = None) -> Iterable[Any]:
    return torch_data.DataLoader(dataset, BATCH, shuffle=True, collate_fn=collate)


def _dataset(chunk: int = ROWS) -> datasets.Dataset:
    values = np.random.default_rng(0).integers(0, 50_000, ROWS * VALUES)
    table = pa.table({"ids": pa.FixedSizeListArray.from_arrays(pa.array(values), VALUES)})
    return datasets.Dataset(pa.Table.from_batches(table.to_batches(max_chunksize=chunk)))


def _ragged() -> datasets.Dataset:
    random = np.random.default_rng(0)
    ends = np.concatenate([[0], np.cumsum(random.integers(8, 56, ROWS // 4))])
    values = pa.array(random.integers(0, 50_000, int(ends[-1])))
    return datasets.Dataset(
        pa.table({"ids": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)})
    )


class _Augmented(torch_data.Dataset[torch.Tensor]):
    """Small images that are flipped and cut at random, as a user writes it."""

    def __init__(self) -> None:
        self.images = torch.rand(8000, 3, 32, 32)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> torch.Tensor:
        image = self.images[index]
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        down, right = torch.randint(0, 9, (2,)).tolist()
        padded = torch.nn.functional.pad(image, (4, 4, 4, 4))
        return padded[:, down : down + 32, right : right + 32]
