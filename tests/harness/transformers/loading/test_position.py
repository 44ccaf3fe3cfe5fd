"""A training that was interrupted anywhere reads on as one that was not, in this process."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate.data_loader import prepare_data_loader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from transformers.trainer_pt_utils import BatchRebalanceSampler, LengthGroupedSampler

from burst.harness.transformers.trainer.loading import follow
from tests.harness.transformers.loading.interrupting import (
    ROWS,
    BufferedStream,
    PlacedStream,
    Rows,
    Stream,
    same,
    seed,
    train,
)

LENGTHS = [3 + index % 7 for index in range(ROWS)]
SAMPLERS: dict[str, Callable[[Rows], Any]] = {
    "random": RandomSampler,
    "own generator": lambda rows: RandomSampler(rows, generator=torch.Generator().manual_seed(3)),
    "replacement": lambda rows: RandomSampler(rows, replacement=True, num_samples=40),
    "sequential": SequentialSampler,
    "subset": lambda rows: SubsetRandomSampler(range(2, len(rows))),
    "weighted": lambda rows: WeightedRandomSampler([1.0, 2.0, 3.0] * 6, 18),
    "by length": lambda rows: LengthGroupedSampler(4, lengths=LENGTHS[: len(rows)]),
    "rebalanced": lambda rows: BatchRebalanceSampler(LENGTHS[: len(rows)], 6, 1, 2),
}
STREAMS: dict[str, Callable[[], Any]] = {
    "no place": Stream,
    "placed": PlacedStream,
    "buffered": BufferedStream,
}
KINDS = ["plain", "shard", "first of two", "second of two"]
stops = st.sets(st.integers(1, 14), min_size=1, max_size=3)
sparingly = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def of_rows(sampler: str, kind: str, *, drop_last: bool = False, rows: int = ROWS) -> Any:
    dataset = Rows(rows)
    chosen = SAMPLERS[sampler](dataset)
    if isinstance(chosen, BatchRebalanceSampler):
        loader = DataLoader(dataset, batch_sampler=chosen)
    else:
        loader = DataLoader(dataset, 3, sampler=chosen, drop_last=drop_last)
    return prepared(loader, kind)


def prepared(loader: DataLoader[Any], kind: str, **more: Any) -> Any:
    if kind == "plain":
        return loader
    index, number = {"shard": (0, 1), "first of two": (0, 2), "second of two": (1, 2)}[kind]
    return prepare_data_loader(
        loader,
        torch.device("cpu"),
        num_processes=number,
        process_index=index,
        put_on_device=True,
        even_batches=not isinstance(loader.batch_sampler, BatchRebalanceSampler),
        **more,
    )


def ahead(kind: str) -> int:
    """Rows that are read again at most, at each stop: those of the batch that was read ahead."""
    return 0 if kind == "plain" else 6


@given(st.sampled_from(sorted(SAMPLERS)), st.sampled_from(KINDS), st.booleans(), stops)
@sparingly
def test_rows_by_number_go_on_where_they_were(
    sampler: str, kind: str, drop_last: bool, stops: set[int]
) -> None:
    def make() -> Any:
        return of_rows(sampler, kind, drop_last=drop_last)

    alone = train(make, followed=False)
    through = train(make, stops=stops)
    assert same(alone, through)
    assert through.read - alone.read <= ahead(kind) * len(stops)


@given(st.sampled_from(sorted(STREAMS)), st.sampled_from(KINDS[:2]), st.booleans(), stops)
@sparingly
def test_streams_go_on_where_they_were(
    stream: str, kind: str, drop_last: bool, stops: set[int]
) -> None:
    def make() -> Any:
        return prepared(DataLoader(STREAMS[stream](), 3, drop_last=drop_last), kind)

    alone = train(make, followed=False)
    through = train(make, stops=stops)
    assert same(alone, through)
    if stream == "placed":
        assert through.read - alone.read <= ahead(kind) * len(stops)


@given(st.sampled_from(sorted(STREAMS)), st.sampled_from(KINDS[2:]), st.booleans(), stops)
@sparingly
def test_shards_of_a_stream_go_on_where_they_were(
    stream: str, kind: str, drop_last: bool, stops: set[int]
) -> None:
    def make() -> Any:
        loader = DataLoader(STREAMS[stream](), 3, drop_last=drop_last)
        return prepared(loader, kind, dispatch_batches=False)

    def dataset(loader: Any) -> Any:
        return loader.dataset.dataset

    alone = train(make, followed=False, dataset=dataset)
    through = train(make, stops=stops, dataset=dataset)
    assert same(alone, through)
    if stream == "placed":  # the first rows are kept to fill up the last batch
        assert through.read - alone.read <= 18 * len(stops)


@pytest.mark.parametrize("stream", sorted(STREAMS))
@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_the_process_that_reads_for_two_goes_on(stream: str, at: int) -> None:
    def make() -> Any:
        loader = prepared(DataLoader(STREAMS[stream](), 3, drop_last=False), "shard")
        state = loader.state
        loader.state = SimpleNamespace(
            process_index=0, num_processes=2, device=state.device
        )  # what it is for the first of two processes; with one, broadcasts do nothing
        return loader

    assert same(train(make, followed=False), train(make, stops={at, at + 1}))


@given(st.sampled_from(KINDS), st.integers(5, 14), st.booleans(), stops)
@sparingly
def test_few_rows_fill_up_a_last_batch_alike(
    kind: str, rows: int, drop_last: bool, stops: set[int]
) -> None:
    def make() -> Any:
        return of_rows("random", kind, drop_last=drop_last, rows=rows)

    assert same(train(make, followed=False), train(make, stops=stops))


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("seedable", [False, True])
def test_each_way_of_sharding_goes_on(split: bool, seedable: bool) -> None:
    def make() -> Any:
        loader = DataLoader(Rows(), 4, shuffle=True)
        return prepared(
            loader, "second of two", split_batches=split, use_seedable_sampler=seedable
        )

    alone = train(make, followed=False)
    for at in range(1, 6):
        assert same(alone, train(make, stops={at}))


class Drawing(Sampler[int]):
    """Draws from the global generator at every row."""

    def __iter__(self) -> Any:
        for _ in range(ROWS):
            yield int(torch.randint(ROWS, ()))

    def __len__(self) -> int:
        return ROWS


@pytest.mark.parametrize("kind", ["plain", "shard"])
def test_a_sampler_that_draws_at_every_row_goes_on(kind: str) -> None:
    def make() -> Any:
        dataset = Rows()
        return prepared(DataLoader(dataset, batch_sampler=BatchSampler(Drawing(), 3, False)), kind)

    alone = train(make, followed=False)
    for at in (2, 8, 9):
        assert same(alone, train(make, stops={at}))


def test_a_pass_within_a_pass_is_not_taken_for_it() -> None:
    followed = follow(of_rows("random", "shard"))
    seed(1)
    iterator = iter(followed.loader)
    for _ in range(3):
        next(iterator)
    assert followed.consumed == 3
    for _ in followed.loader:
        pass
    assert followed.consumed == 3
    assert not followed.ended
    next(iterator)
    assert followed.consumed == 4


def test_a_pass_that_was_broken_off_can_still_be_gone_on_with() -> None:
    seed(1)
    followed = follow(of_rows("sequential", "plain"))
    for number, _ in enumerate(followed.loader, 1):
        if number == 4:
            break
    state = followed.state()
    assert state["consumed"] == 4
    other = follow(of_rows("sequential", "plain"))
    other.load_state(state)
    assert other.consumed == 4
    assert [int(row[0]) for row in next(iter(other.loader))] == [12, 13, 14]


def test_a_new_pass_without_a_state_begins_at_the_beginning() -> None:
    followed = follow(of_rows("sequential", "plain"))
    for _ in range(2):
        assert [int(row[0]) for row in next(iter(followed.loader))] == [0, 1, 2]
        assert followed.consumed == 1


def test_a_row_that_raises_is_left_behind() -> None:
    class Torn(Rows):
        def __getitem__(self, index: int) -> Any:
            if index == 4:
                raise ValueError("torn")
            return super().__getitem__(index)

    followed = follow(DataLoader(Torn(), 3))
    iterator = iter(followed.loader)
    next(iterator)
    with pytest.raises(ValueError, match="torn"):
        next(iterator)
    assert followed.consumed == 1
