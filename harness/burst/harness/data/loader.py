"""`DataLoader`: torch's, with an order that outlives the process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

import torch
import torch.utils.data as torch_data

from burst.harness.data.errors import DataError
from burst.harness.data.fetch import Collate, Fetcher
from burst.harness.data.order import (
    Deal,
    Order,
    RowDeal,
    Sequential,
    Shuffled,
    evaluation_tickets,
)
from burst.harness.data.port import BatchSource
from burst.harness.data.randomness import derive
from burst.harness.data.source import MapSource
from burst.harness.data.workers import Workers, serve


class DataLoader:
    """Batches of a dataset, by torch's argument names and order.

    `batch_size` is one rank's: a global batch holds `batch_size * ranks` rows. The order of rows
    depends on the seed and the epoch only; workers and pinning change how fast batches come,
    never which ones, and `persistent_workers` is always so: a training source starts its workers
    once and crosses epochs with them. `generator` gives plain iteration its seed.

    Iterated plainly, as in a script, it is a loader of one rank that goes through one epoch; the
    next iteration is the next epoch (`set_epoch` names it). Nothing is drawn from, and nothing is
    left changed in, the global random generators.

    Raises:
        DataError: for arguments that give no batch, each with what to do.
    """

    def __init__(  # noqa: PLR0913 - torch's own signature, so that moving over is one import
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Collate | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = bool(shuffle)
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.generator = generator
        self._epoch = 0
        self._check()
        self._workers = Workers(
            number=num_workers,
            pin_memory=pin_memory,
            prefetch_factor=prefetch_factor,
            timeout=timeout,
            init=worker_init_fn,
            context=multiprocessing_context,
        )

    def __len__(self) -> int:
        """Batches in an epoch of one rank."""
        return self._deal(Sequential(self._rows()), 0, 1).batches_per_epoch

    def __iter__(self) -> Generator[Any, None, None]:
        seed = (self.generator or torch.default_generator).initial_seed()
        epoch, self._epoch = self._epoch, self._epoch + 1
        deal = self._deal(self._order(seed), 0, 1)
        tickets = (deal.ticket(epoch, batch) for batch in range(deal.batches_per_epoch))
        return serve(self._fetcher(seed), tickets, self._workers)

    def set_epoch(self, epoch: int) -> None:
        """Name the epoch that the next plain iteration goes through."""
        self._epoch = epoch

    def training_source(self, *, seed: int, rank: int, ranks: int) -> BatchSource:
        """This rank's batches for the training loop, enterable at any global batch."""
        deal = self._deal(self._order(seed), rank, ranks)
        identity = {
            "rows": self._rows(),
            "seed": seed,
            "shuffle": self.shuffle,
            "records_per_batch": deal.records_per_batch,
            "drop_last": self.drop_last,
            "data": getattr(self.dataset, "_fingerprint", type(self.dataset).__qualname__),
        }
        return MapSource(deal, self._fetcher(seed), self._workers, identity)

    def evaluation_batches(
        self, *, seed: int, rank: int, ranks: int
    ) -> Generator[Any, None, None]:
        """One pass in the dataset's own order, without duplicates: the batches of a single rank,
        dealt to the ranks in turn, so some ranks may get one batch less (or none). Randomness in
        the dataset is the same in every evaluation. Close the iterator to end it early."""
        deal = self._deal(Sequential(self._rows()), 0, 1)
        fetch = self._fetcher(derive(seed, "evaluation"))
        return serve(fetch, evaluation_tickets(deal, rank, ranks), self._workers)

    def _order(self, seed: int) -> Order:
        return Shuffled(self._rows(), seed) if self.shuffle else Sequential(self._rows())

    def _deal(self, order: Order, rank: int, ranks: int) -> Deal:
        deal = RowDeal(
            order,
            batch_size=self.batch_size or 1,
            rank=rank,
            ranks=ranks,
            drop_last=self.drop_last,
        )
        if deal.batches_per_epoch == 0:
            raise DataError(
                f"{order.size} rows give no batch of {deal.records_per_batch}",
                why="drop_last=True drops the only batch of an epoch, which is not whole",
                mend="use a smaller batch_size, or drop_last=False",
            )
        return deal

    def _fetcher(self, seed: int) -> Fetcher:
        return Fetcher(self.dataset, self.collate_fn, seed=seed, single=self.batch_size is None)

    def _rows(self) -> int:
        return len(self.dataset)

    def _check(self) -> None:
        if self.batch_size is not None and self.batch_size <= 0:
            raise DataError(f"batch_size is {self.batch_size}", mend="give 1 or more rows")
        if self.num_workers < 0:
            raise DataError(f"num_workers is {self.num_workers}", mend="give 0 or more processes")
        if not hasattr(self.dataset, "__len__") or isinstance(
            self.dataset, torch_data.IterableDataset
        ):
            raise DataError("the dataset has no length", mend="give it a __len__")
        if self._rows() == 0:
            raise DataError("the dataset is empty", mend="look at how it is loaded or filtered")
