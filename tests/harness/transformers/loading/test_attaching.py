"""A loader that is followed stays what it was to the Trainer, accelerate and the script."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import datasets
import pytest
import torch
from accelerate.data_loader import (
    DataLoaderShard,
    IterableDatasetShard,
    prepare_data_loader,
)
from tokenizers import Tokenizer, models
from torch.utils.data import DataLoader
from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

from burst.harness.checkpoints.codec.skeletons import decode
from burst.harness.checkpoints.codec.tree import encode
from burst.harness.errors import TrialError
from burst.harness.transformers.trainer.loading import Followed, follow
from burst.harness.transformers.trainer.loading.generators import Generators, packed, unpacked
from tests.harness.transformers.loading.interrupting import (
    Rows,
    draws,
    same,
    seed,
    train,
)


def shard(**more: Any) -> Any:
    loader = DataLoader(Rows(), 3, shuffle=True, **more)
    return prepare_data_loader(loader, torch.device("cpu"), put_on_device=True)


def test_the_loader_is_the_same_object_and_of_its_class() -> None:
    loader = shard()
    dataset, sampler = loader.dataset, loader.batch_sampler
    followed = follow(loader)
    assert followed.loader is loader
    assert isinstance(loader, DataLoader)
    assert issubclass(type(loader), DataLoaderShard)
    assert type(loader).__name__ == "DataLoaderShard"
    assert loader.dataset is dataset
    assert loader.batch_sampler is sampler
    own: Any = loader
    assert (len(own), own.total_batch_size, own.total_dataset_length) == (8, 3, 23)
    own.set_epoch(4)
    assert own.iteration == 4


def test_a_loader_that_nobody_follows_any_more_is_what_it_was() -> None:
    loader = shard()
    followed = follow(loader)
    del followed
    gc.collect()
    assert len(list(loader)) == 8


def test_a_loader_can_be_followed_again() -> None:
    for loader in (shard(), DataLoader(Rows(), 3)):
        first = follow(loader)
        next(iter(loader))
        second = follow(loader)
        next(iter(loader))
        assert (first.consumed, second.consumed) == (1, 1)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_checkpoint_can_hold_every_state(workers: int) -> None:
    followed = follow(shard(num_workers=workers))
    for number, _ in enumerate(followed.loader, 1):
        state = followed.state()
        encoded = encode(state, "own")
        tensors = [named.tensor for named in encoded.tensors]
        assert len(json.dumps(encoded.skeleton)) + sum(one.nbytes for one in tensors) < 200_000
        read = decode(json.loads(json.dumps(encoded.skeleton)), tensors)
        assert repr(read) == repr(state)
        assert state["consumed"] == (number if number < 8 else 0)
    assert followed.ended


def test_a_state_of_another_version_is_refused() -> None:
    followed = follow(shard())
    with pytest.raises(TrialError, match="cannot be read"):
        followed.load_state({"version": 0})


def test_a_state_that_was_loaded_is_told_until_the_next_pass() -> None:
    followed = follow(shard())
    list(islice(followed.loader, 3))
    state = followed.state()
    other = follow(shard())
    other.load_state(state)
    assert other.consumed == 3
    assert other.state()["entry"] == state["entry"]


class Batches:
    """An iterable of the script's own."""

    dataset = Rows()

    def __iter__(self) -> Iterator[Any]:
        self.dataset.read.clear()
        for index in torch.randperm(6).tolist():
            yield torch.tensor([index])

    def __len__(self) -> int:
        return 6


class Doubling(DataLoader[Any]):
    """A loader that makes of its batches what it likes."""

    def __iter__(self) -> Any:
        for batch in super().__iter__():
            yield 2 * batch


@pytest.mark.parametrize("make", [Batches, lambda: Doubling(Rows(), 3, shuffle=True)])
def test_any_iterable_goes_on_by_being_read_again(make: Any) -> None:
    followed = follow(make())
    assert "read again" in followed.told
    assert len(followed.loader) == len(make())
    assert same(train(make, followed=False), train(make, stops={2, 5, 13}))


def tokens() -> Any:
    tokenizer = Tokenizer(models.WordLevel({"[PAD]": 0, "[MASK]": 1, "a": 2, "b": 3}, "[PAD]"))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", mask_token="[MASK]"
    )


class Texts(Rows):
    def __getitem__(self, index: int) -> Any:
        self.read.append(index)
        return {"input_ids": [2, 3] * 8}


@pytest.mark.parametrize("own", [None, 5])
@pytest.mark.parametrize("workers", [0, 2])
def test_masks_of_a_language_model_are_drawn_on(own: int | None, workers: int) -> None:
    collate = DataCollatorForLanguageModeling(tokens(), seed=own)

    def labels(rows: list[Any]) -> Any:
        return collate(rows)["labels"]

    class Collate:
        def __init__(self) -> None:
            self.collator = DataCollatorForLanguageModeling(tokens(), seed=own)

        def __call__(self, rows: list[Any]) -> Any:
            return self.collator(rows)["labels"]

    def make() -> Any:
        loader = DataLoader(Texts(), 3, collate_fn=Collate(), num_workers=workers)
        return prepare_data_loader(loader, torch.device("cpu"), put_on_device=True)

    assert same(train(make, followed=False), train(make, stops={3, 8, 12}))


@pytest.mark.parametrize("shuffled", [False, True])
def test_streams_of_hugging_face_go_on(shuffled: bool) -> None:
    read: list[int] = []

    def note(row: dict[str, Any]) -> dict[str, Any]:
        read.append(row["x"])
        return {"x": [row["x"], *draws()]}

    def make() -> Any:
        rows = datasets.Dataset.from_dict({"x": list(range(23))})
        stream = rows.to_iterable_dataset(num_shards=4)
        stream = stream.shuffle(seed=3, buffer_size=5) if shuffled else stream
        stream = stream.map(
            note, features=datasets.Features({"x": datasets.List(datasets.Value("float64"))})
        )
        loader = DataLoader(
            stream, 3, collate_fn=lambda rows: torch.tensor([r["x"] for r in rows])
        )
        return prepare_data_loader(loader, torch.device("cpu"), put_on_device=True)

    def nothing(loader: Any) -> Any:
        return Rows()

    alone = train(make, followed=False, dataset=nothing)
    read.clear()
    through = train(make, stops={3, 8, 11}, dataset=nothing)
    assert same(alone, through)
    assert bool(follow(make()).told) == shuffled
    if not shuffled:
        assert len(read) - 46 <= 2 * 3


def test_random_states_pass_between_processes() -> None:
    class Holder:
        def __init__(self) -> None:
            self.generator = torch.Generator().manual_seed(2)

    holder = Holder()
    generators = Generators([holder])
    seed(5)
    snapshot = unpacked(packed(generators.take()))
    expected = [*draws(), float(torch.rand((), generator=holder.generator))]
    seed(6)
    generators.put(snapshot)
    assert [*draws(), float(torch.rand((), generator=holder.generator))] == expected


def test_a_ranks_part_of_a_stream_that_workers_read_is_read_again() -> None:
    def loader() -> DataLoader[Any]:
        rows = datasets.Dataset.from_dict({"x": list(range(24))})
        stream = rows.to_iterable_dataset(num_shards=2)
        part = IterableDatasetShard(stream, batch_size=2, num_processes=2, process_index=1)
        return DataLoader(part, batch_size=2, num_workers=2)

    def batches(followed: Followed) -> list[list[int]]:
        return [batch["x"].tolist() for batch in followed.loader]

    whole = batches(follow(loader()))
    first = follow(loader())
    begun = iter(first.loader)
    for _ in range(2):
        next(begun)
    second = follow(loader())
    second.load_state(first.state())
    assert "tells no place" in second.told
    assert batches(second) == whole[2:]
