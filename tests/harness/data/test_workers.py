"""Worker processes serve, fail and end as a trainer needs them to."""

from __future__ import annotations

import os
import signal
import time
from itertools import islice
from typing import Any

import psutil
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset, get_worker_info

from burst.harness.data import DataError, DataLoader
from burst.harness.data.workers import _explained


class Tells(Dataset[Any]):
    """Rows that tell which process fetched them, or do something to it."""

    def __init__(self, act: str = "", at: int = -1) -> None:
        self.act = act
        self.at = at

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        if index == self.at and get_worker_info() is not None:
            self.misbehave()
        return os.getpid()

    def misbehave(self) -> None:
        if self.act == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.act == "raise":
            raise KeyError("no such row")
        if self.act == "hang":
            time.sleep(600)


def ragged(rows: list[Any]) -> Any:
    raise DataError("rows are ragged", mend="pad them")


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def test_workers_cross_epochs_and_end_at_close() -> None:
    before = children()
    source = DataLoader(Tells(), 2, num_workers=2).training_source(seed=0, rank=0, ranks=1)
    pids = {int(pid) for batch in islice(source.batches(0), 16) for pid in batch}
    assert len(pids) == 2
    assert pids == children() - before
    source.close()
    assert not pids & children()
    source.close()


def test_a_second_entry_ends_the_workers_of_the_first() -> None:
    source = DataLoader(Tells(), 2, num_workers=1).training_source(seed=0, rank=0, ranks=1)
    first = int(next(source.batches(0))[0])
    second = int(next(source.batches(3))[0])
    assert first != second
    assert first not in children()
    source.close()


def test_a_worker_that_dies_is_an_error_that_says_so() -> None:
    source = DataLoader(Tells("die", 4), 2, num_workers=1).training_source(seed=0, rank=0, ranks=1)
    with pytest.raises(DataError, match="a data loader worker process died") as error:
        list(islice(source.batches(0), 8))
    assert error.value.why
    source.close()
    assert "num_workers" in error.value.mend


@pytest.mark.parametrize("error", [ConnectionResetError("gone"), EOFError()])
def test_a_connection_that_a_dead_worker_left_is_told_as_its_death(error: Exception) -> None:
    explained = _explained(error)
    assert isinstance(explained, DataError)
    assert explained.why
    theirs = ConnectionError("Caught ConnectionError in DataLoader worker process 0.")
    assert _explained(theirs) is theirs


def test_an_error_of_the_user_comes_through_with_its_own_traceback() -> None:
    before = children()
    with pytest.raises(KeyError, match="misbehave"):
        list(DataLoader(Tells("raise", 4), 2, num_workers=1))
    assert children() == before


def test_an_error_of_ours_comes_through_as_it_is() -> None:
    with pytest.raises(DataError) as error:
        list(DataLoader(Tells(), 2, num_workers=1, collate_fn=ragged))
    assert (error.value.what, error.value.mend) == ("rows are ragged", "pad them")


def test_a_worker_that_hangs_is_an_error_after_the_timeout_and_is_ended() -> None:
    before = children()
    with pytest.raises(DataError, match="no batch in time"):
        list(DataLoader(Tells("hang", 4), 2, num_workers=1, timeout=1))
    assert children() == before


def test_a_gather_starts_no_process() -> None:
    before = children()
    rows = DataLoader(TensorDataset(torch.arange(8)), 2, num_workers=2)
    source = rows.training_source(seed=0, rank=0, ranks=1)
    assert next(source.batches(0))[0].tolist() == [0, 1]
    assert children() == before


def see_dataset(number: int) -> None:
    info = get_worker_info()
    assert isinstance(info.dataset, Tells)  # type: ignore[union-attr]


def test_a_worker_s_init_function_finds_the_user_s_dataset() -> None:
    loader = DataLoader(Tells(), 2, num_workers=1, worker_init_fn=see_dataset)
    assert len(list(loader)) == 4
