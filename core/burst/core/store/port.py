"""The store port: records under compare-and-set and fences, metric chunks, and a log of events.

Adapters: `memory` (unit tests), `sqlite` (many processes on one machine). Every adapter passes
`burst.core.testing.store_contract`. What the port promises is what DynamoDB can keep: writes are
conditional on a version, up to `MAX_WRITES` of them are atomic together, no record exceeds
`MAX_RECORD_BYTES`, and listing costs what it lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from burst.core.model import Event, MetricChunk, Record

R = TypeVar("R", bound=Record)

MAX_WRITES = 90
"""Writes in one commit, events included (a DynamoDB transaction takes 100 actions)."""
MAX_RECORD_BYTES = 380_000
"""Bytes of one encoded record or metric chunk (a DynamoDB item takes 400 KB)."""


@dataclass(frozen=True)
class Put:
    """Write `record`, whose `version` is the one that was read (0: it must not exist yet).

    The stored record has `version + 1`.
    """

    record: Record


@dataclass(frozen=True)
class Delete:
    """Remove `record`, if it still has the version that was read."""

    record: Record


@dataclass(frozen=True)
class Fence:
    """A condition: the trial exists and its token is `token`; otherwise the commit is `Fenced`."""

    trial: str
    token: int


@dataclass(frozen=True)
class Append:
    """Add an event to the log."""

    event: Event


@dataclass(frozen=True)
class AppendMetrics:
    """Add a metric chunk. The same key again changes nothing, so a lost answer may be retried."""

    chunk: MetricChunk


Write = Put | Delete | Fence | Append | AppendMetrics


@dataclass(frozen=True)
class EventPage:
    events: tuple[Event, ...]
    cursor: str
    """Hand it back as `after` to get what came since; opaque, ordered, and never expires."""


class Store(Protocol):
    """A place for records. Safe for many threads and, but for memory, many processes."""

    @property
    def url(self) -> str:
        """Another process opens the same store with this (`burst.core.store.open_store`)."""
        ...

    def find(self, kind: type[R], id: str) -> R | None:
        """The record, read consistently, or None."""
        ...

    def get(self, kind: type[R], id: str) -> R:
        """The record, read consistently.

        Raises:
            NotFound: if there is none.
        """
        ...

    def find_many(self, kind: type[R], ids: Iterable[str]) -> dict[str, R]:
        """The records that are there, each read consistently, by id: in few requests, where `find`
        takes one for each."""
        ...

    def children(
        self,
        kind: type[R],
        parent: str,
        *,
        after: str = "",
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[R]:
        """The records of `kind` under `parent`, by id, starting beyond the id `after`.

        Costs what it returns, however many others there are. `parent=""` lists the top ones.
        """
        ...

    def live(self, kind: type[R], pool: str | None = None) -> list[R]:
        """The live records of `kind`, of one pool or of all, by id. Never claim from it: an
        adapter may read an index that lags; re-read or rely on the version when writing.

        A new experiment, trial, node or allocation is there at once, so that nobody who has seen
        what else its commit wrote plans without it.
        """
        ...

    def commit(self, *writes: Write) -> None:
        """Make all `writes`, or none.

        Raises:
            Fenced: a `Fence` did not hold (checked first).
            Conflict: a record was not at its version; read again and decide again.
            ValueError: more than `MAX_WRITES`, or one too large: a defect of the caller.
            Unreachable: the store did not answer; the commit may or may not have happened.
        """
        ...

    def metrics(self, trial: str, group: str | None = None) -> list[MetricChunk]:
        """The metric chunks of a trial, by (group, attempt, seq)."""
        ...

    def events(self, after: str = "", *, limit: int = 1000, experiment: str = "") -> EventPage:
        """Events in the order they were committed, beyond the cursor `after`."""
        ...

    def newest_cursor(self) -> str:
        """The cursor beyond the last event, to follow only what comes."""
        ...

    def close(self) -> None: ...
