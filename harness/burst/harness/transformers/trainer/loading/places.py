"""The place in a dataset that is read forward, by the dataset's own state."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from typing import Any

from accelerate.data_loader import IterableDatasetShard
from torch.utils.data import IterableDataset

from burst.harness.checkpoints.port import Tree
from burst.harness.data.stream import Stream


class Places:
    """Takes the place of a loader's dataset, and has it begin there.

    A dataset that is read by row number has none: its place is the sampler's.
    """

    def __init__(self, dataset: Any, workers: int = 0) -> None:
        """`workers` is how many processes read it beside this one."""
        self.is_stream = isinstance(dataset, IterableDataset)
        self._dataset = dataset
        self._shard = dataset if type(dataset) is IterableDatasetShard else None
        self._stream = dataset.dataset if self._shard is not None else dataset
        hidden = self._shard is not None and workers > 0
        self.told = _why_again(self._stream, hidden=hidden) if self.is_stream else ""
        """Why a pass that goes on is read again from its beginning; empty if it is not."""
        self._before: Any = None
        self._entered = False

    @property
    def keeps(self) -> bool:
        """Whether the dataset tells its place."""
        return self.is_stream and not self.told

    def take(self) -> Tree:
        """Where the dataset was read up to; None if it does not tell."""
        return copy.deepcopy(self._stream.state_dict()) if self.keeps else None

    def begin(self) -> None:
        """Let the next pass begin where it would have, had none gone on from within."""
        if self._entered and hasattr(self._stream, "_starting_state_dict"):
            # Hugging Face's begin every pass of an epoch at the state that was loaded last.
            self._stream.load_state_dict(self._before)
        self._entered = False

    def enter(self, place: Tree) -> tuple[Any, int]:
        """Let the next pass begin at a place: the dataset to make its iterator of, and how many
        batches of that are to be left out."""
        if place is None:
            return self._dataset, 0
        if not self._entered:
            self._before = getattr(self._stream, "_starting_state_dict", None)
            self._entered = True
        if self._shard is None:
            self._stream.load_state_dict(copy.deepcopy(place))
            return self._dataset, 0
        shard = copy.copy(self._shard)
        # A last batch that is short is filled up with the rows of the first one.
        ranks = 1 if shard.split_batches else shard.num_processes
        keep = 0 if shard.drop_last else shard.batch_size * ranks
        shard.dataset = _Resumed(self._stream, keep, place)
        return shard, 1 if keep else 0


class _Resumed(IterableDataset[Any]):
    """The first rows of a stream, and then those from a place on."""

    def __init__(self, stream: Any, keep: int, place: Tree) -> None:
        self._stream = stream
        self._keep = keep
        self._place = place

    def __iter__(self) -> Iterator[Any]:
        if self._keep:
            yield from islice(iter(self._stream), self._keep)
        self._stream.load_state_dict(copy.deepcopy(self._place))
        yield from self._stream


def _why_again(dataset: Any, *, hidden: bool) -> str:
    name = type(dataset).__name__
    if hidden:
        why = f"this rank's part of a {name} that worker processes read tells no place"
    elif not (hasattr(dataset, "state_dict") and hasattr(dataset, "load_state_dict")):
        why = f"{name} has no state_dict() and load_state_dict() that tell its place"
    elif not Stream(dataset).keeps_place:
        why = f"the shuffle buffer of this {name} is not part of its state"
    else:
        return ""
    return (
        f"{why}: a pass that was interrupted is read again from its beginning, and what was "
        "consumed is left out. That is exact unless what the dataset keeps from batch to batch "
        "depends on global random numbers that the training draws too"
    )
