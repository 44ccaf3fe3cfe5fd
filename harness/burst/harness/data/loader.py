"""`DataLoader`: torch's, with an order that outlives the process."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable
from functools import partial
from itertools import islice
from typing import Any

import torch

from burst.harness.data.checks import check_arguments, check_stream, is_stream, length_of
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
from burst.harness.data.samplers import SampledDeal, SampledOrder
from burst.harness.data.source import MapSource, StreamSource
from burst.harness.data.stream import OnePass, Place, Share, Stream, StreamReader
from burst.harness.data.workers import Workers, read, serve


class DataLoader:
    """Batches of a dataset, by torch's argument names and order.

    `batch_size` is one rank's: a global batch holds `batch_size * ranks` rows. The order of rows
    depends on the seed and the epoch only; workers and pinning change how fast batches come,
    never which ones, and workers are always persistent: a training source starts them once and
    crosses epochs with them. `generator` gives plain iteration its seed. `collate_fn` is given a
    list of rows, as torch's; left out, rows are stacked into tensors.

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
        self.batch_size = batch_size
        self.shuffle = bool(shuffle)
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.generator = generator
        self._epoch = 0
        self._stream: Stream | None = None
        self._give(dataset)
        self._workers = Workers(
            number=num_workers,
            pin_memory=pin_memory,
            prefetch_factor=prefetch_factor,
            timeout=timeout,
            init=worker_init_fn,
            context=multiprocessing_context,
        )

    def over(self, dataset: Any) -> DataLoader:
        """The same loader of other rows.

        Raises:
            DataError: as when it is made.
        """
        other = copy.copy(self)
        other._give(dataset)
        return other

    def _give(self, dataset: Any) -> None:
        self.dataset = dataset
        check_arguments(self)
        self._stream = None
        if is_stream(dataset):
            check_stream(self)
            self._stream = Stream(dataset)

    def __len__(self) -> int:
        """Batches in an epoch of one rank.

        Raises:
            TypeError: for a stream, as of everything without a length.
        """
        if self._stream:
            raise TypeError("a stream has no length")
        return self._deal(0).batches_per_epoch

    def __iter__(self) -> Generator[Any, None, None]:
        seed = (self.generator or torch.default_generator).initial_seed()
        epoch, self._epoch = self._epoch, self._epoch + 1
        if self._stream:
            return self._pass(self._stream, seed, epoch)
        deal = self._deal(seed)
        tickets = (deal.ticket(epoch, batch) for batch in range(deal.batches_per_epoch))
        return serve(self._fetcher(seed), tickets, self._workers)

    def set_epoch(self, epoch: int) -> None:
        """Name the epoch that the next plain iteration goes through."""
        self._epoch = epoch

    def training_source(self, *, seed: int, rank: int, ranks: int) -> BatchSource:
        """This rank's batches for the training loop, enterable at any global batch."""
        if self._stream:
            return self._stream_source(self._stream, seed, rank, ranks)
        deal = self._deal(seed, rank, ranks)
        identity = self._identity(seed, deal.records_per_batch)
        return MapSource(deal, self._fetcher(seed), self._workers, identity)

    def evaluation_batches(
        self, *, seed: int, rank: int, ranks: int
    ) -> Generator[Any, None, None]:
        """One pass without duplicates, in the sampler's order if there is one and else in the
        dataset's own: the batches of a single rank, dealt to the ranks in turn, so that a batch
        is the same for any number of ranks, and some ranks may get one batch less (or none).
        Randomness in the dataset is the same in every evaluation. Close it to end it early."""
        seed = derive(seed, "evaluation")
        if self._stream:
            return self._pass(self._stream, seed, 0, rank, ranks)
        deal = self._deal(seed, shuffle=False)
        return serve(self._fetcher(seed), evaluation_tickets(deal, rank, ranks), self._workers)

    def _deal(
        self, seed: int, rank: int = 0, ranks: int = 1, *, shuffle: bool | None = None
    ) -> Deal:
        if self.batch_sampler is not None:
            size = length_of(self.dataset)
            deal: Deal = SampledDeal(self.batch_sampler, size, seed=seed, rank=rank, ranks=ranks)
        else:
            deal = RowDeal(
                self._order(seed, self.shuffle if shuffle is None else shuffle),
                batch_size=self.batch_size or 1,
                rank=rank,
                ranks=ranks,
                drop_last=self.drop_last,
            )
        if deal.batches_per_epoch == 0:
            raise DataError(
                f"an epoch has no batch of {deal.records_per_batch} rows",
                why="the sampler is empty, or the dataset has fewer rows than a global batch "
                f"(batch_size × {ranks} ranks) and drop_last=True drops what is not whole",
                mend="use a smaller batch_size, or drop_last=False",
            )
        return deal

    def _order(self, seed: int, shuffle: bool) -> Order:
        size = length_of(self.dataset)
        if self.sampler is not None:
            return SampledOrder(self.sampler, size, seed)
        return Shuffled(size, seed) if shuffle else Sequential(size)

    def _fetcher(self, seed: int) -> Fetcher:
        return Fetcher(self.dataset, self.collate_fn, seed=seed, single=self.batch_size is None)

    def _stream_source(self, stream: Stream, seed: int, rank: int, ranks: int) -> BatchSource:
        size = self.batch_size or 1
        if stream.is_split:
            share = Share(size, drop_last=self.drop_last)
        else:
            share = Share(size, rank, ranks, self.drop_last)
        identity = self._identity(seed, size * ranks)
        identity["split"] = ranks if stream.is_split else None
        return StreamSource(partial(self._reader, stream, seed, share), self._workers, identity)

    def _reader(self, stream: Stream, seed: int, share: Share, start: Place) -> StreamReader:
        return StreamReader(stream, self.collate_fn, share, seed=seed, start=start)

    def _pass(
        self, stream: Stream, seed: int, epoch: int, rank: int = 0, ranks: int = 1
    ) -> Generator[Any, None, None]:
        if stream.is_split:
            rank, ranks = 0, 1
        share = Share(self.batch_size or 1, drop_last=self.drop_last)
        pairs = read(OnePass(self._reader(stream, seed, share, Place(epoch=epoch))), self._workers)
        try:
            yield from (batch for batch, _ in islice(pairs, rank, None, ranks))
        finally:
            pairs.close()

    def _identity(self, seed: int, records_per_batch: int) -> dict[str, Any]:
        own = getattr(self.dataset, "_fingerprint", None)
        kind = type(self.dataset)
        samplers = (self.sampler, self.batch_sampler)
        return {
            "data": own or f"{kind.__module__}.{kind.__qualname__}",
            "rows": None if self._stream else length_of(self.dataset),
            "seed": seed,
            "shuffle": self.shuffle,
            "samplers": [type(s).__qualname__ for s in samplers if s is not None],
            "records_per_batch": records_per_batch,
            "drop_last": self.drop_last,
        }
