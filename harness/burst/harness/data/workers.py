"""Runs a fetch for a stream of tickets: here, or in torch's worker processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.utils.data as torch_data
import torch.utils.data._utils.worker as torch_worker

from burst.harness.data.errors import DataError
from burst.harness.data.fetch import Fetcher
from burst.harness.data.forking import check_started, context_for
from burst.harness.data.order import Ticket
from burst.harness.data.stream import OnePass, Place, StreamReader

_REST_S = 0.05


@dataclass(frozen=True)
class Workers:
    """How batches are fetched; never which ones."""

    number: int = 0
    pin_memory: bool = False
    prefetch_factor: int | None = None
    timeout: float = 0
    init: Callable[[int], None] | None = None
    context: Any = None


def serve(
    fetch: Fetcher, tickets: Iterator[Ticket], workers: Workers
) -> Generator[Any, None, None]:
    """The batches of `tickets`, in their order. Closing the iterator ends the workers.

    Worker processes start only where there is code of the user's to run: a plain gather is
    faster than the pipe that its result would have to pass.

    Raises:
        DataError: if a worker dies, or does not answer within `timeout` seconds. What the user's
            own code raises passes through as it is.
    """
    pin = workers.pin_memory and torch.accelerator.is_available()
    number = workers.number if fetch.runs_user_code or workers.init else 0
    if number == 0 and not pin:
        return (fetch(ticket) for ticket in tickets)
    init = _Init(fetch.dataset, workers.init)
    return _through(_loader(_Served(fetch), tickets, replace(workers, number=number), init))


def read(
    reader: StreamReader | OnePass, workers: Workers
) -> Generator[tuple[Any, Place], None, None]:
    """What the reader reads. A stream has one order, so it has one worker at most."""
    pin = workers.pin_memory and torch.accelerator.is_available()
    if workers.number == 0 and not pin:
        return (pair for pair in reader)
    one = replace(workers, number=min(workers.number, 1))
    return _through(_loader(_Read(reader), None, one, _Init(reader.dataset, workers.init)))


def _loader(
    dataset: torch_data.Dataset[Any], sampler: Any, workers: Workers, init: _Init
) -> torch_data.DataLoader[Any]:
    number = workers.number
    return torch_data.DataLoader(
        dataset,
        batch_size=None,
        sampler=sampler,
        collate_fn=_as_it_is,
        num_workers=number,
        prefetch_factor=workers.prefetch_factor if number else None,
        pin_memory=workers.pin_memory and torch.accelerator.is_available(),
        timeout=workers.timeout if number else 0,
        worker_init_fn=init if number else None,
        multiprocessing_context=context_for(workers.context) if number else None,
        generator=torch.Generator(),  # torch draws its base seed here, not from the global one
    )


def _through(loader: torch_data.DataLoader[Any]) -> Generator[Any, None, None]:
    # Twice, because torch's signal handler raises a worker's death at any moment, also while the
    # first sign of it (a connection that ends) is being explained.
    with _told(), _told():
        if loader.num_workers:
            _let_others_rest()
        batches = iter(loader)
        try:
            check_started(getattr(batches, "_workers", ()))
            for batch in batches:
                if isinstance(batch, _Failed):
                    raise batch.error
                yield batch
        finally:
            shut_down = getattr(batches, "_shutdown_workers", None)
            if shut_down is not None:
                shut_down()


def _let_others_rest() -> None:
    """Let torch's threads for collectives let go of what they hold of Python, before a fork.

    A fork meanwhile may cost a second, as `forking` says. Such a thread is idle once it had the
    interpreter.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        time.sleep(_REST_S)


@contextmanager
def _told() -> Iterator[None]:
    """Errors of torch's about its workers in our words."""
    try:
        yield
    except (RuntimeError, ConnectionError, FileNotFoundError, EOFError) as error:
        explained = _explained(error)
        if explained is error:
            raise
        raise explained from error


def _explained(error: Exception) -> Exception:
    """What torch's own errors about workers mean; any other error is the user's and stays."""
    text = str(error)
    if text.startswith("Caught "):
        return error
    # A worker is the other end of its batches' file descriptors too, so its death may show as a
    # connection that ends or is not there.
    if text.startswith("DataLoader worker (pid") or not isinstance(error, RuntimeError):
        return DataError(
            "a data loader worker process died",
            why=str(error.__cause__ or error).partition("\n")[0] or type(error).__name__,
            mend="look for the out-of-memory killer in the machine's log (`dmesg`) and lower "
            "num_workers or prefetch_factor; with num_workers=0 a crash in the dataset shows "
            "where it is",
        )
    if text.startswith("DataLoader timed out"):
        return DataError(
            "the data loader's workers gave no batch in time",
            why=text.splitlines()[0],
            mend="raise timeout=, or find what the dataset waits for",
        )
    return error


@dataclass(frozen=True)
class _Failed:
    """A DataError on its way out of a worker; torch would turn it into text."""

    error: DataError


class _Served(torch_data.Dataset[Any]):
    """What torch calls a dataset, whose indices are tickets."""

    def __init__(self, fetch: Fetcher) -> None:
        self._fetch = fetch

    def __getitem__(self, ticket: Ticket) -> Any:
        try:
            return self._fetch(ticket)
        except DataError as error:
            return _Failed(error)


class _Read(torch_data.IterableDataset[Any]):
    """A reader in the one worker of a stream."""

    def __init__(self, reader: StreamReader | OnePass) -> None:
        self._reader = reader

    def __iter__(self) -> Iterator[Any]:
        # A dataset that finds itself in a worker may take another order or only a part of its
        # rows, as Hugging Face's do. Here it is alone, and reads as it would in the trainer.
        torch_worker._worker_info = None
        try:
            yield from self._reader
        except DataError as error:
            yield _Failed(error)


@dataclass(frozen=True)
class _Init:
    """Prepares a worker process as the user knows it from torch."""

    dataset: Any
    init: Callable[[int], None] | None

    def __call__(self, number: int) -> None:
        # Ctrl-C reaches the whole process group; what it means is for the trainer to decide.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # `get_worker_info().dataset` is the user's dataset; the info refuses plain assignment.
        object.__setattr__(torch_data.get_worker_info(), "dataset", self.dataset)
        if self.init is not None:
            self.init(number)


def _as_it_is(value: Any) -> Any:
    return value
