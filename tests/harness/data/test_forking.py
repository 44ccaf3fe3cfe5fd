"""A worker whose fork comes to nothing is forked again, and nobody can tell afterwards."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from multiprocessing import connection
from multiprocessing.context import ForkContext
from pathlib import Path
from typing import Any, NoReturn

import psutil
import pytest
import torch
from torch.utils.data import Dataset, get_worker_info

from burst.harness.data import DataError, DataLoader, forking
from burst.harness.data.forking import AnsweringForkContext, context_for

LONG_S = 60.0


class Forks:
    """`os.fork`, some of whose children hang as they do in CPython: before they can return. Also
    the deadlines, so that a slow machine has no say in which of them are given up."""

    def __init__(self, silent: set[int], ends: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        self.silent = silent
        self.ends = ends
        self.count = 0
        self._fork = os.fork

    def __call__(self) -> int:
        number = self.count
        self.count += 1
        child = self._fork()
        while child == 0 and number in self.silent:
            signal.pause()
        if child == 0 and number in self.ends:
            os.kill(os.getpid(), signal.SIGKILL)
        return child

    def __iter__(self) -> Iterator[float]:
        for _ in range(4):
            yield 0.01 if self.count in self.silent else LONG_S

    def __len__(self) -> int:
        return 4

    def __getitem__(self, at: int) -> float:
        return list(self)[at]

    def set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "fork", self)
        monkeypatch.setattr(forking, "DEADLINES_S", self)


class Draws(Dataset[Any]):
    """Rows that tell which worker fetched them, its seed, and what it drew."""

    def __init__(self, mark: Path | None = None) -> None:
        self.mark = mark

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert info is not None
        if self.mark is not None:
            (self.mark / str(os.getpid())).touch()
        return index, info.id, info.seed, random.random(), torch.rand(1).item()


def together(rows: list[Any]) -> list[Any]:
    return rows


def batches(dataset: Draws) -> list[Any]:
    loader = DataLoader(dataset, 2, shuffle=True, num_workers=2, collate_fn=together)
    source = loader.training_source(seed=7, rank=0, ranks=1)
    found = list(islice(source.batches(0), 9))
    source.close()
    return found


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def descriptors() -> set[str]:
    """Of the open pipes, but for what tests before this one have left to the garbage collector."""
    gc.collect()
    folder = Path("/proc/self/fd")
    return {at for at in os.listdir(folder) if _target(folder / at).startswith("pipe:")}


def _target(descriptor: Path) -> str:
    with suppress(FileNotFoundError):  # the one that lists them
        return os.readlink(descriptor)
    return ""


@pytest.fixture
def undisturbed() -> list[Any]:
    return batches(Draws())


@pytest.mark.parametrize(
    "silent", [{0}, {1}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}, {1, 2, 3}, {0, 1, 2, 4, 5, 6}]
)
def test_rows_and_seeds_are_the_same_whichever_forks_hang(
    silent: set[int], undisturbed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = children()
    forks = Forks(silent)
    forks.set(monkeypatch)
    assert batches(Draws()) == undisturbed
    assert forks.count == 2 + len(silent)
    assert children() == before


@pytest.mark.parametrize("healthy", [0, 1])
def test_a_worker_that_never_starts_is_an_error_and_leaves_nothing(
    healthy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = children()
    Forks(set(range(healthy, 10))).set(monkeypatch)
    with pytest.raises(DataError, match="could not be started") as error:
        batches(Draws())
    assert "4 times" in error.value.why
    assert "num_workers=0" in error.value.mend
    assert children() == before


def test_a_child_that_is_given_up_while_it_answers_runs_no_code(
    tmp_path: Path, undisturbed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = forking._is_answered
    asked = []

    def too_late(from_child: int, to_child: int, deadline: float) -> bool:
        asked.append(deadline)
        if len(asked) == 1:
            connection.wait([from_child], LONG_S)
            return False
        return answered(from_child, to_child, LONG_S)

    monkeypatch.setattr(forking, "_is_answered", too_late)
    assert batches(Draws(tmp_path)) == undisturbed
    assert len(asked) == 3
    assert len(list(tmp_path.iterdir())) == 2


def test_a_child_that_dies_before_it_answers_is_forked_again(
    undisturbed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = children()
    forks = Forks({2}, ends={1})
    forks.set(monkeypatch)
    assert batches(Draws()) == undisturbed
    assert forks.count == 4
    assert children() == before


def test_an_interrupt_while_it_waits_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> NoReturn:
        raise KeyboardInterrupt

    before = children(), descriptors()
    process = AnsweringForkContext().Process(target=signal.pause)
    monkeypatch.setattr(forking, "_is_answered", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process.start()
    assert children() <= before[0]
    assert descriptors() <= before[1]


@pytest.mark.parametrize("silent", [set(), {0}, {0, 1, 2}, {0, 1, 2, 3}])
def test_no_descriptor_is_left_open_however_many_forks_hang(
    silent: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = descriptors()
    Forks(silent).set(monkeypatch)
    process = AnsweringForkContext().Process(target=os.getpid)
    process.start()
    process.join()
    assert process.exitcode == (-signal.SIGKILL if len(silent) == 4 else 0)
    process.close()
    assert descriptors() <= before


def test_a_process_ends_as_any_of_multiprocessing_s() -> None:
    context = AnsweringForkContext()
    leaves = context.Process(target=sys.exit, args=(7,))
    leaves.start()
    stays = context.Process(target=signal.pause, daemon=True)
    stays.start()
    assert connection.wait([leaves.sentinel], LONG_S) == [leaves.sentinel]
    leaves.join()
    assert leaves.exitcode == 7
    assert connection.wait([stays.sentinel], 0) == []
    assert stays.exitcode is None
    stays.kill()
    stays.join()
    assert stays.exitcode == -signal.SIGKILL


class Own(ForkContext):
    pass


def test_only_the_standard_library_s_fork_is_replaced() -> None:
    fork = multiprocessing.get_context("fork")
    assert multiprocessing.get_start_method() == "fork"
    for wanted in (None, "fork", fork):
        assert isinstance(context_for(wanted), AnsweringForkContext)
    for other in ("spawn", "forkserver", multiprocessing.get_context("spawn"), Own()):
        assert context_for(other) is other
