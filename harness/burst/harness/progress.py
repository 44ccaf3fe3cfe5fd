"""The trial's progress in the store: how far it is, its newest and best metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from burst.core.clock import Clock, SystemClock
from burst.core.metrics import VALIDATED, merge
from burst.core.model import (
    Event,
    Judged,
    Lengths,
    MetricChunk,
    MetricPoint,
    MetricRow,
    Trial,
)
from burst.core.store import Store, update
from burst.core.store.port import Append, AppendMetrics, Fence, Put, Write
from burst.harness.searching import Search, noted

WORTH_TELLING = 0.05
"""Of a training: so far a trial may come at most before its record says so, or nobody could see
how far a short one is."""


class Progress:
    """What the harness knows of its trial. Everything is absolute, so storing it twice is
    harmless. Written by the loop, read by the reporter's thread."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self.measure: Callable[[], Lengths] = Lengths
        """How far the trial is; called from the reporter's thread. Set it when this attempt has
        been restored or has trained: until then the record keeps what an earlier one said."""
        self.base = 0
        """Batches that this attempt was restored at: what earlier ones reported up to there
        stands."""
        self.metric = ""
        self.smaller_is_better = True
        self.target_batches: int | None = None
        self.training_since: float | None = None
        """When this process began to train."""
        self.checkpoint_interval: Callable[[], float | None] = lambda: None
        """Seconds in which the next checkpoint is to be expected; called like `measure`."""
        self.latest: dict[str, MetricPoint] = {}
        self.best: MetricPoint | None = None
        self.validations = 0
        self.search: Search | None = None
        """What the searcher looks at, where it waits for validations."""
        self._judged: list[Judged] = []
        """Those that are not stored yet."""
        self._validated = False
        """Whether this process has."""

    def reported(self, group: str, batches: int, metrics: Mapping[str, float]) -> None:
        """Note a group's newest metrics.

        Raises:
            ConfigError: it is a validation, and does not say what the searcher has to know.
        """
        point = MetricPoint(batches=batches, metrics=dict(metrics), at=self._clock.now())
        judged = None
        if group == "validation" and self.search is not None:
            judged = self.search.judged(batches, metrics, self.measure())
        with self._lock:
            if judged is not None:
                self._judged.append(judged)
            self.latest[group] = point
            if group == "validation":
                self.validations += 1
                self._validated = True

    def now(self) -> float:
        return self._clock.now()

    def judged(self) -> tuple[Judged, ...]:
        """Validations for the searcher that may not be stored yet, oldest first."""
        with self._lock:
            return tuple(self._judged)

    def stored(self, count: int) -> None:
        """So many of them are."""
        with self._lock:
            del self._judged[:count]

    def forget_newest(self) -> None:
        """Forget every group's newest metrics; the record keeps those that it has."""
        with self._lock:
            self.latest.clear()

    def judge(self, batches: int, metrics: Mapping[str, float]) -> bool:
        """Whether these validation metrics are the best so far; if they are, keep them. Call it
        before they are reported, so that no record has them without their being judged."""
        with self._lock:
            if not self.better(metrics, self.best):
                return False
            self.best = MetricPoint(batches=batches, metrics=dict(metrics), at=self._clock.now())
        return True

    def better(self, metrics: Mapping[str, float], best: MetricPoint | None) -> bool:
        """Whether metrics are better than the best so far. A metric that is not there or not a
        number is never the best."""
        value = metrics.get(self.metric)
        if value is None or value != value:
            return False
        than = None if best is None else best.metrics.get(self.metric)
        return than is None or (value < than if self.smaller_is_better else value > than)

    def fields(self) -> dict[str, Any]:
        """The trial record's fields that the harness owns, as far as it knows them yet. The best
        validation is known once this process has validated: until then the metric rows that the
        record's is the best of all stand."""
        known: dict[str, Any] = {
            "training_since": self.training_since,
            "checkpoint_interval": self.checkpoint_interval(),
        }
        if self.measure is not Lengths:
            known |= {"done": self.measure(), "target_batches": self.target_batches}
        with self._lock:
            known |= {"latest": dict(self.latest), "validations": self.validations}
            return known | ({"best": self.best} if self._validated else {})

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
        self._told = 0
        """Batches that the record says are done."""
        self._base: int | None = None
        self._earlier: dict[int, MetricRow] = {}
        """Validations by batch that earlier attempts reported up to `_base`, and that stand."""

    def is_due(self) -> bool:
        target = self._progress.target_batches
        news = self._progress.measure().batches - self._told
        return target is not None and news >= max(1.0, WORTH_TELLING * target)

    def forget(self) -> None:
        self._progress.forget_newest()

    def send(self, chunks: list[MetricChunk], events: list[Event]) -> None:
        added: list[Write] = [AppendMetrics(chunk) for chunk in chunks]
        added += [Append(event) for event in events]
        known, judged = self._progress.fields(), self._progress.judged()
        if "best" in known and (best := self._best(chunks, known.pop("best"))) is not None:
            known["best"] = best

        def change(trial: Trial) -> list[Write]:
            fields = dict(known)
            fields["validations"] = max(fields["validations"], trial.validations)
            fields["latest"] = {**trial.latest, **fields["latest"]}
            changed = noted(trial.model_copy(update=fields), judged)
            progress: list[Write] = [] if changed == trial else [Put(changed)]
            if changed.judged > trial.judged:  # runners wake at events
                progress.append(Append(self._validated(changed)))
            return [self._fence, *added, *progress] if added or progress else []

        update(self._store, Trial, self._trial, change)
        self._progress.stored(len(judged))
        self._told = known["done"].batches if "done" in known else self._told

    def _validated(self, trial: Trial) -> Event:
        newest = trial.untold[-1]
        return Event(
            subject=trial.id,
            experiment=trial.experiment,
            name=VALIDATED,
            text=f"{self._progress.metric} {newest.metric:.6g} at batch {newest.batches}",
            at=self._progress.now(),
            data={"batches": newest.batches},
        )

    def _best(self, chunks: list[MetricChunk], best: MetricPoint | None) -> MetricPoint | None:
        """The better of this and what earlier attempts have reported that still stands. The
        checkpoint need not know of it: a script may validate after it saves."""
        base = self._progress.base
        if self._base != base:
            rows = merge(self._store.metrics(self._trial, "validation")).get("validation", ())
            self._earlier = {row.batches: row for row in rows if row.batches <= base}
            self._base = base
        for chunk in chunks:
            for again in chunk.rows if chunk.group == "validation" else ():
                self._earlier.pop(again.batches, None)
        for row in self._earlier.values():
            if self._progress.better(row.metrics, best):
                best = MetricPoint(batches=row.batches, metrics=dict(row.metrics), at=row.at)
        return best
