"""Metrics on their way to the store, without ever making a step wait.

`report` appends to a queue; a thread sends what has gathered about every five seconds, sooner at
first, when asked, and where a short training has come a good way, in one commit with the trial's
progress and under its fence. What could not be sent stays in order and is tried again; a chunk
keeps its number, so a commit whose answer was lost counts once. Only what no store would ever take
is left out, alone, and told.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from burst.core.clock import Clock, SystemClock
from burst.core.errors import BurstError, Fenced, StoreError, Unreachable, UsageError
from burst.core.model import Event, MetricChunk
from burst.harness.chunks import Chunks, Origin, Row

log = logging.getLogger(__name__)

EVERY_S = 5.0
FIRST_EVERY_S = (0.2, 1.0)
LOOK_EVERY_S = 0.25
"""Between two looks whether something is due sooner."""
LONGEST_BACKOFF_S = 30.0
CHUNKS = 30
"""Bound on the chunks of one commit, and on its events."""
ROWS_AT_ONCE = 4000


class Sink(Protocol):
    """Where reports go; called from one thread at a time."""

    def send(self, chunks: list[MetricChunk], events: list[Event]) -> None:
        """Make them and the progress durable, all or nothing. The same again changes nothing.

        Raises:
            Fenced: a newer allocation owns the trial.
            Unreachable, StoreError: it could not be now; later it may.
            Exception: something in it never can be.
        """
        ...

    def is_due(self) -> bool:
        """Whether the progress is worth sending before its time."""
        ...

    def forget(self) -> None:
        """Let the progress say nothing of the newest metrics, until there are newer ones."""
        ...


class Reporter:
    """Safe to call from any thread. One a trial, on rank 0."""

    def __init__(self, sink: Sink, origin: Origin, clock: Clock | None = None) -> None:
        self.chunks = Chunks(origin)
        self._sink = sink
        self._origin = origin
        self._clock = clock or SystemClock()
        self._rows: deque[Row] = deque()
        self._events: deque[Event] = deque()
        self._ready: deque[MetricChunk] = deque()
        self._left_out: Counter[str] = Counter()
        """Rows that no store takes, by group."""
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
            BurstError: an earlier failure was for good; what was reported after it is lost.
        """
        if self._closing:
            return
        sent = self._error is None and self.flush(timeout)
        self.abandon()
        self._thread.join(timeout=10.0)
        if self._left_out:
            rows = ", ".join(f"{count} of {group!r}" for group, count in self._left_out.items())
            log.warning("reports that could not be stored: %s", rows)
        self.check()
        if not sent:
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
            try:
                self._pause(backoff or next(pauses, EVERY_S), patient=bool(backoff))
                asked = self._asked
                self._send_all()
            except Fenced as error:
                return self._fail(error)
            except (Unreachable, StoreError) as error:
                backoff = min(max(2 * backoff, 0.5), LONGEST_BACKOFF_S)
                log.warning("storing metrics failed, trying again in %.1f s: %s", backoff, error)
                continue
            except BaseException as error:
                return self._fail(error)
            backoff = 0.0
            with self._wake:
                self._done = asked
                self._wake.notify_all()

    def _fail(self, error: BaseException) -> None:
        """Let every call from now on raise it."""
        if isinstance(error, Exception) and not isinstance(error, BurstError):
            why = f"{type(error).__name__}: {error}"
            made = BurstError("the progress of this trial cannot be stored", why=why)
            made.__cause__ = error
            error = made
        with self._wake:
            self._error = error
            self._wake.notify_all()

    def _pause(self, seconds: float, patient: bool) -> None:
        left = seconds
        while left > 0:
            with self._wake:
                if self._wake.wait_for(
                    lambda: self._closing or (not patient and self._asked > self._done),
                    min(left, LOOK_EVERY_S),
                ):
                    return
            left -= LOOK_EVERY_S
            if not patient and self._sink.is_due():
                return

    def _send_all(self) -> None:
        """Send what is there now, a bounded part at a time: many objects alive at once would make
        the garbage collector hold up the steps."""
        left = len(self._rows)
        while True:
            if not self._ready:
                taken = min(left, ROWS_AT_ONCE)
                rows = [self._rows.popleft() for _ in range(taken)]
                self._ready.extend(self.chunks.sealed(rows, self._leave_out))
                left -= taken
            chunks = list(self._ready)[:CHUNKS]
            events = list(self._events)[:CHUNKS]
            try:
                self._sink.send(chunks, events)
            except BurstError:
                raise
            except Exception:
                self._send_apart(chunks, events)
            else:
                for _ in chunks:
                    self._ready.popleft()
                for _ in events:
                    self._events.popleft()
            if not (left or self._ready or self._events):
                return

    def _send_apart(self, chunks: list[MetricChunk], events: list[Event]) -> None:
        """Send each alone, after something among them, or in the progress, turned out to be what
        no store takes, and leave that out."""
        if self._refusal([], []) is not None:
            self._sink.forget()
            self._sink.send([], [])
        for chunk in chunks:
            error = self._refusal([chunk], [])
            self._ready.popleft()
            if error is not None:
                self._leave_out(chunk.group, [row.batches for row in chunk.rows], error)
        for event in events:
            error = self._refusal([], [event])
            self._events.popleft()
            if error is not None:
                log.warning("the event %s cannot be stored: %s", event.name, error)

    def _refusal(self, chunks: list[MetricChunk], events: list[Event]) -> Exception | None:
        """Why these can never be sent; None if they were."""
        try:
            self._sink.send(chunks, events)
        except BurstError:
            raise
        except Exception as error:
            return error
        return None

    def _leave_out(self, group: str, batches: Sequence[int], error: Exception) -> None:
        """Do without these rows of a group; told at its first."""
        told = group in self._left_out
        self._left_out[group] += len(batches)
        if told:
            return
        at = f"batch {batches[0]}" + (f" to {batches[-1]}" if len(batches) > 1 else "")
        text = (
            f"metrics of the group {group!r} at {at} cannot be stored and are left out: "
            f"{type(error).__name__}: {error}"
        )
        log.warning("%s", text)
        self._events.append(
            Event(
                subject=self._origin.trial,
                experiment=self._origin.trial.rpartition(".")[0],
                name="trial.metrics_lost",
                text=text,
                at=self._clock.now(),
            )
        )


class Silent:
    """A sink for ranks other than 0 and for runs without a store."""

    def send(self, chunks: list[MetricChunk], events: list[Event]) -> None:
        return None

    def is_due(self) -> bool:
        return False

    def forget(self) -> None:
        return None
