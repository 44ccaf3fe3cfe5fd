"""Metrics on their way to the store, without ever making a step wait.

`report` appends to a queue; a thread sends what has gathered about every five seconds, sooner at
first and when asked, in one commit with the trial's progress and under its fence. What could not
be sent stays in order and is tried again; a chunk keeps its number, so a commit whose answer was
lost counts once.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from burst.core.clock import Clock, SystemClock
from burst.core.errors import BurstError, Conflict, Unreachable, UsageError
from burst.core.model import Event, MetricChunk, MetricRow

log = logging.getLogger(__name__)

EVERY_S = 5.0
FIRST_EVERY_S = (0.2, 1.0)
LONGEST_BACKOFF_S = 30.0
CHUNK_BYTES = 250_000
"""Bound on a chunk by our estimate, which is above what its encoding takes."""
CHUNKS = 30
"""Bound on the chunks of one commit, and on its events."""
ROWS_AT_ONCE = 4000

Row = tuple[str, int, float, Mapping[str, float]]
"""Group, batches, time, metrics."""


class Sink(Protocol):
    """Where reports go; called from one thread at a time."""

    def send(self, chunks: list[MetricChunk], events: list[Event]) -> None:
        """Make them and the progress durable, all or nothing. The same again changes nothing.

        Raises:
            Fenced: a newer allocation owns the trial.
            Unreachable: there was no answer.
        """
        ...


@dataclass(frozen=True)
class Origin:
    """Whose metrics they are."""

    trial: str
    attempt: int


class Reporter:
    """Safe to call from any thread. One a trial, on rank 0."""

    def __init__(self, sink: Sink, origin: Origin, clock: Clock | None = None) -> None:
        self.base = 0
        """Batches that this attempt was restored at."""
        self._sink = sink
        self._origin = origin
        self._clock = clock or SystemClock()
        self._rows: deque[Row] = deque()
        self._events: deque[Event] = deque()
        self._ready: deque[MetricChunk] = deque()
        self._seq: dict[str, int] = {}
        self._error: BaseException | None = None
        self._wake = threading.Condition()
        self._asked = 0
        self._done = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="burst-reports", daemon=True)
        self._thread.start()

    def report(self, group: str, batches: int, metrics: Mapping[str, float]) -> None:
        """Take metrics in; never waits.

        Raises:
            Fenced: an earlier report was refused because a newer allocation owns the trial.
        """
        self._check_open()
        self._rows.append((group, batches, self._clock.now(), metrics))

    def event(self, event: Event) -> None:
        self._events.append(event)

    def _check_open(self) -> None:
        self.check()
        if self._closing:
            raise UsageError(
                "this context is closed: nothing more can be reported or saved",
                mend="report and save inside the `with burst.harness.init()` block",
            )

    def check(self) -> None:
        """Raise what went wrong for good, if anything did."""
        if self._error is not None:
            raise self._error

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything reported so far is durable; False if it is not by then.

        Raises:
            Fenced: it never will be.
        """
        self._check_open()
        with self._wake:
            self._asked += 1
            mine = self._asked
            self._wake.notify_all()
            self._wake.wait_for(lambda: self._done >= mine or self._error is not None, timeout)
            done = self._done >= mine
        self.check()
        return done

    def nudge(self) -> None:
        """Have the thread send soon, without waiting for it."""
        with self._wake:
            self._asked += 1
            self._wake.notify_all()

    def close(self, timeout: float = 600.0) -> None:
        """Send the rest and end the thread.

        Raises:
            Fenced: a newer allocation owns the trial.
            Unreachable: the store did not answer until `timeout`; what it has not got is lost.
        """
        if self._closing:
            return
        sent = self._error is None and self.flush(timeout)
        self.abandon()
        self._thread.join(timeout=10.0)
        if not sent and self._error is None:
            raise Unreachable(
                "the last metrics could not be stored",
                why=f"the store did not answer for {timeout:.0f} seconds",
            )

    def end_soon(self, timeout: float = 10.0) -> None:
        """Send what can be sent soon, after a failure; raises nothing."""
        with contextlib.suppress(BurstError):
            self.close(timeout)

    def abandon(self) -> None:
        """End the thread without sending what is left."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()

    def _run(self) -> None:
        pauses = iter(FIRST_EVERY_S)
        backoff = 0.0
        while not self._closing:
            self._pause(backoff or next(pauses, EVERY_S), patient=bool(backoff))
            asked = self._asked
            try:
                self._send_all()
            except (Unreachable, Conflict) as error:
                backoff = min(max(2 * backoff, 0.5), LONGEST_BACKOFF_S)
                log.warning("storing metrics failed, trying again in %.1f s: %s", backoff, error)
                continue
            except BaseException as error:
                self._error = error
                with self._wake:
                    self._wake.notify_all()
                return
            backoff = 0.0
            with self._wake:
                self._done = asked
                self._wake.notify_all()

    def _pause(self, seconds: float, patient: bool) -> None:
        with self._wake:
            self._wake.wait_for(
                lambda: self._closing or (not patient and self._asked > self._done), seconds
            )

    def _send_all(self) -> None:
        """Send what is there now, a bounded part at a time: many objects alive at once would make
        the garbage collector hold up the steps."""
        left = len(self._rows)
        while True:
            if not self._ready:
                taken = min(left, ROWS_AT_ONCE)
                self._ready.extend(self._seal([self._rows.popleft() for _ in range(taken)]))
                left -= taken
            chunks = list(self._ready)[:CHUNKS]
            events = list(self._events)[:CHUNKS]
            self._sink.send(chunks, events)
            for _ in chunks:
                self._ready.popleft()
            for _ in events:
                self._events.popleft()
            if not (left or self._ready or self._events):
                return

    def _seal(self, rows: Iterable[Row]) -> list[MetricChunk]:
        """Chunks of the rows, numbered for good. Order within a group is kept."""
        groups: dict[str, list[Row]] = {}
        for row in rows:
            groups.setdefault(row[0], []).append(row)
        return [
            self._chunk(group, part) for group, all_ in groups.items() for part in _parts(all_)
        ]

    def _chunk(self, group: str, rows: list[Row]) -> MetricChunk:
        seq = self._seq.get(group, 0)
        self._seq[group] = seq + 1
        made = tuple(
            MetricRow(batches=batches, at=at, metrics=metrics) for _, batches, at, metrics in rows
        )
        return MetricChunk.model_construct(
            trial=self._origin.trial,
            attempt=self._origin.attempt,
            group=group,
            seq=seq,
            base=self.base,
            rows=made,
        )


def _parts(rows: list[Row]) -> Iterable[list[Row]]:
    part: list[Row] = []
    size = 0
    for row in rows:
        estimate = 60 + sum(len(key.encode()) + 30 for key in row[3])
        if part and size + estimate > CHUNK_BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += estimate
    if part:
        yield part


class Silent:
    """A sink for ranks other than 0 and for runs without a store."""

    def send(self, chunks: list[MetricChunk], events: list[Event]) -> None:
        return None
