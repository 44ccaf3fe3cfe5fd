"""Averages of training metrics between two reports.

A value on the CPU is read at once. One on an accelerator is kept there, so that no step waits for
it, and read with many others. The sums are of Python floats in the order of the batches, so they
do not depend on when values were read, or on a pause in between: the sums are part of the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from burst.harness.distributed import DistributedContext
from burst.harness.errors import TrialError
from burst.harness.values import check_name, to_float

_AT_ONCE = 128
"""Values on an accelerator that are kept before they are read."""


class TrainingMetrics:
    def __init__(self, keep_batches: bool = False) -> None:
        """`keep_batches`: also remember every batch's own metrics, for callbacks."""
        self._keep = keep_batches
        self._names: set[str] = set()
        """Those that are known to be good, so that no batch pays for looking again."""
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._pending: list[tuple[int, str, torch.Tensor]] = []
        self._batches: dict[int, dict[str, float]] = {}
        self.nan: tuple[int, str] | None = None
        """The first batch with a metric that is not a finite number, and its name."""

    def add(self, batch: int, returned: Any) -> None:
        """Take in what `train_batch` returned for a batch.

        Raises:
            TrialError: if it is neither a number, nor a dict of them.
            MetricError: if a metric is not one number, or has no name that can be kept.
        """
        if isinstance(returned, torch.Tensor):
            self._add(batch, "loss", returned)
        elif isinstance(returned, Mapping):
            for key, value in returned.items():
                self._add(batch, key, value)
        elif isinstance(returned, int | float):
            self._count(batch, "loss", to_float("loss", returned))
        elif returned is not None:
            raise TrialError(
                f"train_batch returned {type(returned).__name__}",
                mend='return the loss, or a dict of metrics such as {"loss": loss}',
            )

    def _add(self, batch: int, key: str, value: Any) -> None:
        if key not in self._names:
            check_name(key)
            self._names.add(key)
        far = type(value) is not float and isinstance(value, torch.Tensor) and not value.is_cpu
        if far and value.numel() == 1:
            self._pending.append((batch, key, value.detach().reshape(()).clone()))
            if len(self._pending) >= _AT_ONCE:
                self._read()
        else:
            self._count(batch, key, to_float(key, value))

    def _count(self, batch: int, key: str, value: float) -> None:
        self._sums[key] = self._sums.get(key, 0.0) + value
        self._counts[key] = self._counts.get(key, 0) + 1
        if value - value != 0.0 and self.nan is None:
            self.nan = (batch, key)
        if self._keep:
            self._batches.setdefault(batch, {})[key] = value

    def _read(self) -> None:
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        values = torch.stack([value.double() for _, _, value in pending]).tolist()
        for (batch, key, _), value in zip(pending, values, strict=True):
            self._count(batch, key, value)

    def reduce(
        self, distributed: DistributedContext
    ) -> tuple[dict[str, float], list[dict[str, float]]]:
        """The averages over batches and ranks, and this rank's batches, if kept; starts anew.
        Collective. A metric need not be there in every batch or on every rank."""
        self._read()
        parts = distributed.allgather([self._sums, self._counts])
        sums: dict[str, float] = {}
        counts: dict[str, int] = {}
        for part_sums, part_counts in parts:
            for key, value in part_sums.items():
                sums[key] = sums.get(key, 0.0) + value
                counts[key] = counts.get(key, 0) + part_counts[key]
        batches = list(self._batches.values())
        self._sums, self._counts, self._batches = {}, {}, {}
        return {key: sums[key] / counts[key] for key in sums}, batches

    def state(self) -> dict[str, Any]:
        self._read()
        return {
            "sums": dict(self._sums),
            "counts": dict(self._counts),
            "batches": {batch: dict(values) for batch, values in self._batches.items()},
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._sums = dict(state["sums"])
        self._counts = dict(state["counts"])
        self._batches = {batch: dict(values) for batch, values in state["batches"].items()}

    def add_state(self, state: Mapping[str, Any]) -> None:
        """Count what another rank had counted, too; its batches stay unknown here."""
        for key, value in state["sums"].items():
            self._sums[key] = self._sums.get(key, 0.0) + value
            self._counts[key] = self._counts.get(key, 0) + state["counts"][key]
