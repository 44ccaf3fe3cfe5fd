"""The trial's progress in the store: how far it is, its newest and best metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from burst.core.clock import Clock, SystemClock
from burst.core.model import Event, Lengths, MetricChunk, MetricPoint, Trial
from burst.core.store import Store, update
from burst.core.store.port import Append, AppendMetrics, Fence, Put, Write


class Progress:
    """What the harness knows of its trial. Everything is absolute, so storing it twice is
    harmless. Written by the loop, read by the reporter's thread."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self.measure: Callable[[], Lengths] = Lengths
        """How far the trial is; called from the reporter's thread. Until it is set, the record
        keeps what an earlier attempt said."""
        self.target_batches: int | None = None
        self.training_since: float | None = None
        """When this process began to train."""
        self.checkpoint_interval: Callable[[], float | None] = lambda: None
        """Seconds in which the next checkpoint is to be expected; called like `measure`."""
        self.latest: dict[str, MetricPoint] = {}
        self.best: MetricPoint | None = None
        self.validations = 0

    def reported(self, group: str, batches: int, metrics: Mapping[str, float]) -> None:
        """Note a group's newest metrics."""
        point = MetricPoint(batches=batches, metrics=dict(metrics), at=self._clock.now())
        with self._lock:
            self.latest[group] = point
            if group == "validation":
                self.validations += 1

    def forget_newest(self) -> None:
        """Forget every group's newest metrics; the record keeps those that it has."""
        with self._lock:
            self.latest.clear()

    def judge(self, batches: int, metrics: Mapping[str, float], name: str, smaller: bool) -> bool:
        """Whether these validation metrics are the best so far by metric `name`; if they are, keep
        them. A metric that is not there or not a number is never the best."""
        value = metrics.get(name)
        if value is None or value != value:
            return False
        with self._lock:
            if self.best is not None:
                best = self.best.metrics[name]
                if not (value < best if smaller else value > best):
                    return False
            self.best = MetricPoint(batches=batches, metrics=dict(metrics), at=self._clock.now())
        return True

    def fields(self) -> dict[str, Any]:
        """The trial record's fields that the harness owns, as far as it knows them yet."""
        known: dict[str, Any] = {
            "training_since": self.training_since,
            "checkpoint_interval": self.checkpoint_interval(),
        }
        if self.measure is not Lengths:
            known |= {"done": self.measure(), "target_batches": self.target_batches}
        with self._lock:
            known |= {"latest": dict(self.latest), "validations": self.validations}
            return known | ({"best": self.best} if "done" in known else {})

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        with self._lock:
            best = None if self.best is None else self.best.model_dump(mode="json")
            return {"best": best, "validations": self.validations}

    def load_state(self, state: Mapping[str, Any]) -> None:
        best = state["best"]
        with self._lock:
            self.best = None if best is None else MetricPoint.model_validate(best)
            self.validations = state["validations"]


class StoreSink:
    """Sends chunks, events and progress in one commit, under the trial's fence."""

    def __init__(self, store: Store, trial: str, token: int, progress: Progress) -> None:
        self._store = store
        self._trial = trial
        self._fence = Fence(trial, token)
        self._progress = progress

    def forget(self) -> None:
        self._progress.forget_newest()

    def send(self, chunks: list[MetricChunk], events: list[Event]) -> None:
        added: list[Write] = [AppendMetrics(chunk) for chunk in chunks]
        added += [Append(event) for event in events]

        def change(trial: Trial) -> list[Write]:
            fields = self._progress.fields()
            fields["validations"] = max(fields["validations"], trial.validations)
            fields["latest"] = {**trial.latest, **fields["latest"]}
            changed = trial.model_copy(update=fields)
            progress: list[Write] = [] if changed == trial else [Put(changed)]
            return [self._fence, *added, *progress] if added or progress else []

        update(self._store, Trial, self._trial, change)
