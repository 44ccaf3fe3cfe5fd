"""Streams go on from their own state, for any number of workers and ranks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import datasets
import pytest
import torch
from datasets.distributed import split_dataset_by_node
from torch.utils.data import IterableDataset

from burst.harness.data import DataError, DataLoader

ROWS = 21
BATCHES = 14


class Numbers(IterableDataset[Any]):
    """Counts, adds noise, and knows where it is."""

    def __init__(self, rows: int = ROWS) -> None:
        self.rows = rows
        self.at = 0

    def __iter__(self) -> Iterator[Any]:
        while self.at < self.rows:
            self.at += 1
            yield {"row": self.at - 1, "noise": random.random()}

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


def hugging_face(shards: int = 3) -> Any:
    rows = datasets.Dataset.from_dict({"row": list(range(ROWS))})
    return rows.to_iterable_dataset(num_shards=shards)


def add_noise(row: dict[str, Any]) -> dict[str, Any]:
    return {"noise": random.random()}


STREAMS: dict[str, Any] = {
    "torch": Numbers,
    "hugging face": lambda: hugging_face().map(add_noise),
    "shuffled in a buffer": lambda: hugging_face().shuffle(seed=1, buffer_size=5).map(add_noise),
}


def frozen(batch: Any) -> Any:
    return {name: value.tolist() for name, value in batch.items()}


def read(
    loader: DataLoader,
    state: Any = None,
    position: int = 0,
    number: int = BATCHES,
    rank: int = 0,
    ranks: int = 1,
) -> tuple[list[Any], list[Any]]:
    source = loader.training_source(seed=4, rank=rank, ranks=ranks)
    if state is not None:
        source.load_state(json.loads(json.dumps(state)))
    batches, states = [], []
    for batch in islice(source.batches(position), number):
        batches.append(frozen(batch))
        states.append(source.state())
    source.close()
    return batches, states


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_goes_on_after_any_batch(name: str) -> None:
    whole, states = read(DataLoader(STREAMS[name](), 4))
    assert sorted(row for batch in whole[:6] for row in batch["row"]) == list(range(ROWS))
    for position in range(1, BATCHES):
        loader = DataLoader(STREAMS[name](), 4)
        rest, _ = read(loader, states[position - 1], position, BATCHES - position)
        assert rest == whole[position:]


@pytest.mark.parametrize("name", STREAMS)
def test_workers_change_nothing_in_a_stream(name: str) -> None:
    alone, states = read(DataLoader(STREAMS[name](), 4))
    assert read(DataLoader(STREAMS[name](), 4, num_workers=2)) == (alone, states)


@pytest.mark.parametrize("name", STREAMS)
def test_ranks_share_every_batch_of_a_stream(name: str) -> None:
    whole, states = read(DataLoader(STREAMS[name](), 4))
    gang = [read(DataLoader(STREAMS[name](), 2), states[2], 3, 2, rank, 2)[0] for rank in range(2)]
    together = [{k: a[k] + b[k] for k in a} for a, b in zip(*gang, strict=True)]
    assert together == whole[3:5]


def test_without_a_state_a_stream_is_read_up_to_the_position() -> None:
    whole, _ = read(DataLoader(Numbers(), 4))
    assert read(DataLoader(Numbers(), 4), position=8, number=3)[0] == whole[8:11]


def test_the_user_s_stream_is_not_moved() -> None:
    stream = hugging_face()
    before = stream.state_dict()
    read(DataLoader(stream, 4))
    assert stream.state_dict() == before
    assert len(list(stream)) == ROWS


def test_a_stream_that_the_user_split_is_this_rank_s_own() -> None:
    stream = split_dataset_by_node(hugging_face(shards=2), rank=1, world_size=2)
    alone = [row["row"] for row in stream]
    batches, states = read(DataLoader(stream, 3), number=3, rank=1, ranks=2)
    assert [row for batch in batches for row in batch["row"]] == alone[:9]
    with pytest.raises(DataError, match="split for 2 ranks, and now is for 4"):
        read(DataLoader(stream, 3), states[0], 1, 1, 1, 4)


def test_evaluation_goes_through_a_stream_once() -> None:
    loader = DataLoader(Numbers(), 4)
    parts = [
        [frozen(batch)["row"] for batch in loader.evaluation_batches(seed=1, rank=r, ranks=4)]
        for r in range(4)
    ]
    assert [len(part) for part in parts] == [2, 2, 1, 1]
    assert sorted(row for part in parts for batch in part for row in batch) == list(range(ROWS))
    assert len(list(loader)) == 6
    with pytest.raises(TypeError, match="no length"):
        len(loader)


def test_a_stream_without_rows_is_an_error_and_no_endless_loop() -> None:
    for loader in (DataLoader(Numbers(0), 4), DataLoader(Numbers(3), 4, drop_last=True)):
        with pytest.raises(DataError, match="before it gives a batch of 4"):
            read(loader, number=1)


class Lost(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(range(3))


class Unwritable(Numbers):
    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "where": torch.zeros(2)}


def test_a_stream_that_cannot_say_where_it_is_is_refused() -> None:
    with pytest.raises(DataError, match="no state_dict and no load_state_dict"):
        DataLoader(Lost(), 4)
    with pytest.raises(DataError, match="cannot be written as JSON"):
        read(DataLoader(Unwritable(), 4))


@pytest.mark.parametrize("argument", [{"shuffle": True}, {"sampler": [1]}, {"batch_size": None}])
def test_a_stream_is_not_asked_for_rows(argument: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="is a stream"):
        DataLoader(Numbers(), **argument)


def test_states_of_other_data_are_refused() -> None:
    stream = DataLoader(Numbers(), 4).training_source(seed=0, rank=0, ranks=1)
    with pytest.raises(DataError, match="does not hold the place of a stream"):
        stream.load_state(None)
    rows = DataLoader(list(range(4))).training_source(seed=0, rank=0, ranks=1)
    with pytest.raises(DataError, match="and the data is not one"):
        rows.load_state(stream.state())
    rows.load_state(rows.state())
    list(islice(stream.batches(3), 1))
    with pytest.raises(DataError, match="cannot go back"):
        stream.batches(1)
