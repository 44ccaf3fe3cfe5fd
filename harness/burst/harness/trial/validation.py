"""Validation: all batches, shared out over the ranks, as one set of metrics."""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

import torch

from burst.harness import determinism
from burst.harness.checkpoints.codec import rng
from burst.harness.errors import TrialError
from burst.harness.trial.callbacks import PyTorchCallback
from burst.harness.trial.context import PyTorchTrialContext
from burst.harness.trial.reducers import Reducer, combine
from burst.harness.trial.ruled import ruled
from burst.harness.trial.trial import PyTorchTrial, ReducerSpec
from burst.harness.values import to_floats

Outputs = list[tuple[dict[str, float], int]]
"""Each batch's metrics and its number of records."""


class Validation:
    """Runs validations. What they draw from the random generators comes from the seed and the
    batch, and the generators are put back afterwards: training is the same with or without."""

    def __init__(
        self,
        trial: PyTorchTrial,
        context: PyTorchTrialContext,
        callbacks: list[PyTorchCallback],
        by_batch: bool,
    ) -> None:
        """`by_batch`: the trial has `evaluate_batch` rather than `evaluate_full_dataset`."""
        self._trial = trial
        self._context = context
        self._callbacks = callbacks
        self._by_batch = by_batch
        self._loader: Any = None

    def prepare(self) -> None:
        """Have the data, which the experiment's rules then hold for. Idempotent."""
        if self._loader is None:
            built = self._trial.build_validation_data_loader()
            self._loader = ruled(built, self._context, "validation rows")

    def run(self) -> dict[str, float]:
        """The metrics over all ranks, the same on each; collective."""
        context = self._context
        self.prepare()
        for callback in self._callbacks:
            callback.on_validation_start()
            callback.on_validation_epoch_start()
        gathering = [wrapped for wrapped in context.reducers if wrapped.for_validation]
        held = [(wrapped, wrapped.reducer.state_dict()) for wrapped in gathering]
        for wrapped in gathering:
            wrapped.reducer.reset()
        with self._own_randomness(), context.models.evaluating(), torch.no_grad():
            metrics = self._by_batches() if self._by_batch else self._in_full()
        for wrapped in gathering:
            metrics |= wrapped.collect(context.distributed)
        for wrapped, state in held:
            wrapped.reducer.reset()
            wrapped.reducer.load_state_dict(state)
        for callback in self._callbacks:
            callback.on_validation_end(dict(metrics))
        return metrics

    def _by_batches(self) -> dict[str, float]:
        gang, outputs, weighed = self._context.distributed, [], []
        with closing(self._batches(gang.rank, gang.size)) as own:
            batches = self._in_step(own) if self._context.models.sharded else own
            for index, batch in enumerate(batches):
                with self._context.autocast():
                    output = self._trial.evaluate_batch(batch, index)
                outputs.append(output)
                weighed.append([to_floats(output), self._trial.get_batch_length(batch)])
        for callback in self._callbacks:
            callback.on_validation_epoch_end(outputs)
        # Rank r had batches r, r + ranks, …: back into the order of the data.
        parts = gang.allgather(weighed)
        whole = [
            parts[i % gang.size][i // gang.size] for i in range(sum(len(part) for part in parts))
        ]
        return reduce_outputs(whole, self._trial.evaluation_reducer())

    def _in_step(self, own: Iterator[Any]) -> Iterator[Any]:
        """This rank's batches, for as long as any rank has one: forward of a sharded model needs
        all of them. A rank that is through evaluates its first one again, for nothing."""
        gang, first = self._context.distributed, None
        for index in count():
            batch = next(own, None)
            if not any(gang.allgather(batch is not None)):
                return
            if batch is not None:
                first = batch if first is None else first
                yield batch
                continue
            if first is None:
                with closing(self._batches(0, 1)) as every:
                    first = next(every)
            with self._held_reducers(), self._context.autocast():
                self._trial.evaluate_batch(first, index)

    @contextmanager
    def _held_reducers(self) -> Iterator[None]:
        """Let what reducers are given in the block count for nothing."""
        held = [(w.reducer, copy.deepcopy(w.reducer.state_dict())) for w in self._context.reducers]
        yield
        for reducer, state in held:
            reducer.reset()
            reducer.load_state_dict(state)

    def _in_full(self) -> dict[str, float]:
        gang = self._context.distributed
        if self._context.models.sharded and gang.size > 1:
            raise TrialError(
                "evaluate_full_dataset runs on rank 0 alone, which has a part of the model",
                why="the model is sharded, and its forward needs all ranks",
                mend="define evaluate_batch instead",
            )
        metrics: dict[str, float] | None = None
        if gang.rank == 0:
            with self._context.autocast():
                metrics = to_floats(self._trial.evaluate_full_dataset(FullLoader(self)))
        for callback in self._callbacks:
            callback.on_validation_epoch_end([])
        return dict(gang.broadcast(metrics))

    def _batches(self, rank: int, ranks: int) -> Generator[Any]:
        context = self._context
        source = self._loader.evaluation_batches(
            seed=context.get_trial_seed(), rank=rank, ranks=ranks
        )
        try:
            for batch in source:
                yield context.to_device(batch) if context.auto_to_device else batch
        finally:
            getattr(source, "close", int)()

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        context = self._context
        before = rng.capture()
        determinism.seed_all(
            determinism.derive(
                context.get_trial_seed(), "validation", context.batch, context.distributed.rank
            )
        )
        try:
            yield
        finally:
            rng.restore(before)


class FullLoader:
    """What `evaluate_full_dataset` iterates over: every validation batch, on this rank."""

    def __init__(self, validation: Validation) -> None:
        self._validation = validation

    def __iter__(self) -> Iterator[Any]:
        return self._validation._batches(0, 1)

    def __len__(self) -> int:
        return len(self._validation._loader)


def reduce_outputs(
    outputs: list[Any], reducer: ReducerSpec | Mapping[str, ReducerSpec]
) -> dict[str, float]:
    """One set of metrics from those of all batches, in the order of the data.

    Raises:
        TrialError: if the batches have different metrics, or one has no reducer.
    """
    if not outputs:
        raise TrialError(
            "there was no validation batch", mend="give the validation loader at least one row"
        )
    names = list(outputs[0][0])
    for metrics, _ in outputs:
        if set(metrics) != set(names):
            raise TrialError(
                "evaluate_batch returned different metrics for different batches",
                why=f"{sorted(names)}, then {sorted(metrics)}",
                mend="return the same names for every batch",
            )
    weights = [float(records) for _, records in outputs]
    reduced: dict[str, float] = {}
    for name in names:
        values = [metrics[name] for metrics, _ in outputs]
        how = reducer.get(name) if isinstance(reducer, Mapping) else reducer
        if how is None:
            raise TrialError(f"evaluation_reducer has no entry for the metric {name!r}")
        value = combine(how, values, weights) if isinstance(how, Reducer) else how(values)
        reduced |= to_floats({name: value})
    return reduced
