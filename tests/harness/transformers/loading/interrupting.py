"""Training loops over a loader, alone or interrupted, and rows that show every random draw."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from burst.harness.checkpoints.codec import rng
from burst.harness.transformers.trainer.loading import follow

ROWS = 23


def draws() -> list[float]:
    """One number of every generator; of NumPy's also a normal one, which come in pairs."""
    return [
        random.random(),
        float(np.random.rand()),
        float(np.random.randn()),
        float(torch.rand(())),
    ]


@dataclass
class Rows(Dataset[Any]):
    """Rows by number, augmented."""

    rows: int = ROWS
    read: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: int) -> Any:
        self.read.append(index)
        return torch.tensor([float(index), *draws()])


class Stream(IterableDataset[Any]):
    """Rows to read forward, augmented, divided among workers."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __iter__(self) -> Any:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for index in range(first, ROWS, step):
            self.read.append(index)
            yield torch.tensor([float(index), *draws()])


class PlacedStream(Stream):
    """One that tells its place, which is its beginning once it is at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0

    def __iter__(self) -> Any:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        while first + self.at * step < ROWS:
            index = first + self.at * step
            self.at += 1
            self.read.append(index)
            yield torch.tensor([float(index), *draws()])
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class BufferedStream(Stream):
    """One that shuffles in a buffer with a global generator, and tells no place."""

    def __iter__(self) -> Any:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        held: list[int] = []
        for index in range(first, ROWS, step):
            self.read.append(index)
            held.append(index)
            if len(held) > 5:
                yield torch.tensor([held.pop(random.randrange(len(held))), *draws()])
        random.shuffle(held)
        for index in held:
            yield torch.tensor([index, *draws()])


@dataclass
class Seen:
    """What a training saw."""

    batches: list[Any]
    after: list[float]
    """Random numbers drawn at its end."""
    read: int
    """Rows that were read of the dataset, in this process."""


def seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def train(
    make: Callable[[], Any],
    *,
    epochs: int = 2,
    stops: Iterable[int] = (),
    followed: bool = True,
    dataset: Callable[[Any], Any] = lambda loader: loader.dataset,
) -> Seen:
    """Train for some epochs. At each of `stops`, counted in batches, all is thrown away but the
    state and the random states, and made anew by a process that had drawn otherwise."""
    stops = set(stops)
    seed(1)
    loader = make()
    follower = follow(loader) if followed else None
    loader = follower.loader if follower else loader
    batches: list[Any] = []
    read = 0
    epoch = 0
    while epoch < epochs:
        _set_epoch(loader, epoch)
        iterator = iter(loader)
        for batch in iterator:
            batches.append(batch)
            torch.rand(3), np.random.randn()  # as dropout does
            if len(batches) not in stops:
                continue
            stops.discard(len(batches))
            assert follower is not None
            state, ended, present = follower.state(), follower.ended, rng.capture()
            read += len(dataset(loader).read)
            del iterator
            seed(1)
            follower = follow(make())
            loader = follower.loader
            seed(99)
            rng.restore(present)
            follower.load_state(state)
            break
        else:
            epoch += 1
            continue
        epoch += ended
    return Seen(batches, draws(), read + len(dataset(loader).read))


def same(one: Seen, other: Seen) -> bool:
    """Whether two trainings saw the same and end in the same random states."""
    return (
        len(one.batches) == len(other.batches)
        and all(torch.equal(a, b) for a, b in zip(one.batches, other.batches, strict=True))
        and one.after == other.after
    )


def _set_epoch(loader: Any, epoch: int) -> None:
    parts: list[Any] = [loader, getattr(loader, "dataset", None)]
    for part in parts:
        if hasattr(part, "set_epoch"):
            part.set_epoch(epoch)
            return
