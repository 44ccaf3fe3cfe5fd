"""What can be seen to be wrong with a loader before a batch is asked for."""

from __future__ import annotations

from typing import Any, Protocol

import torch.utils.data as torch_data

from burst.harness.data.errors import DataError


class Arguments(Protocol):
    """What a loader was asked for."""

    dataset: Any
    batch_size: int | None
    shuffle: bool
    sampler: Any
    batch_sampler: Any
    num_workers: int
    drop_last: bool


def is_stream(dataset: Any) -> bool:
    """Whether rows come one after another only. Hugging Face's streams are torch's too, where
    torch was there first; `_ex_iterable` tells those that are not."""
    return isinstance(dataset, torch_data.IterableDataset) or hasattr(dataset, "_ex_iterable")


def length_of(dataset: Any) -> int:
    """Rows in the dataset.

    Raises:
        DataError: if it has none, or no length.
    """
    try:
        size = len(dataset)
    except (TypeError, NotImplementedError) as error:
        raise DataError(
            f"{type(dataset).__name__} has no length",
            why="the order of an epoch is an order of all its rows",
            mend="give it a __len__, or make it an IterableDataset with state_dict() and "
            "load_state_dict()",
        ) from error
    if size == 0:
        raise DataError(
            f"the dataset ({type(dataset).__name__}) is empty",
            mend="look at how it is loaded or filtered: an epoch needs one row at least",
        )
    return size


def check_arguments(loader: Arguments) -> None:
    """Raises DataError for what no loader can be."""
    if loader.batch_size is not None:
        check_number("batch_size", loader.batch_size, least=1)
    check_number("num_workers", loader.num_workers, least=0)
    if loader.shuffle and loader.sampler is not None:
        raise DataError("shuffle=True and a sampler both give the order", mend="give one of them")
    if loader.batch_sampler is not None and (
        loader.batch_size not in (1, None)
        or loader.shuffle
        or loader.sampler is not None
        or loader.drop_last
    ):
        raise DataError(
            "a batch_sampler leaves no room for batch_size, shuffle, sampler and drop_last",
            why="it makes the batches",
            mend="give the batch_sampler alone, or the others without it",
        )
    if loader.batch_size is None and loader.drop_last:
        raise DataError(
            "drop_last=True means nothing with batch_size=None",
            why="the dataset's items are the batches",
            mend="give a batch_size, or drop_last=False",
        )
    if not is_stream(loader.dataset):
        length_of(loader.dataset)


def check_stream(loader: Arguments) -> None:
    """Raises DataError for what a stream cannot be asked."""
    name = type(loader.dataset).__name__
    if loader.shuffle or loader.sampler is not None or loader.batch_sampler is not None:
        raise DataError(
            f"{name} is a stream, which has no rows to choose from",
            mend="shuffle it itself (dataset.shuffle(seed=…, buffer_size=…) for Hugging Face's), "
            "or use a dataset with row numbers",
        )
    if loader.batch_size is None:
        raise DataError(
            f"{name} is a stream and has no batch_size", mend="give the rows in one rank's batch"
        )
    check_stream_state(loader.dataset)


def check_stream_state(dataset: Any) -> None:
    """Raises DataError for a stream that cannot say where it is."""
    name = type(dataset).__name__
    missing = [m for m in ("state_dict", "load_state_dict") if not hasattr(dataset, m)]
    if missing:
        raise DataError(
            f"{name} is a stream that cannot say where it is: no {' and no '.join(missing)}",
            why="a resumed trial has to go on with the next row, in another process",
            mend="give it state_dict() (numbers, strings, lists and dicts) and a "
            "load_state_dict(state) that its __iter__ goes on from, as Hugging Face's streaming "
            "datasets have them, or make it a dataset with __len__ and __getitem__",
        )


def check_number(name: str, value: Any, *, least: int) -> None:
    """Raises DataError for what is no whole number from `least` on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DataError(f"{name} is {value!r}", mend=f"give a whole number from {least} on")
