"""The store for unit tests: one process, nothing kept."""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar
from weakref import WeakValueDictionary

from burst.core.errors import NotFound
from burst.core.model import Event, MetricChunk, Record, Trial
from burst.core.store import codec
from burst.core.store.checks import check_writes, conflict, cursor_of, fenced, sequence_of
from burst.core.store.port import (
    Append,
    AppendMetrics,
    Delete,
    EventPage,
    Fence,
    Put,
    Write,
)

R = TypeVar("R", bound=Record)

_stores: WeakValueDictionary[str, MemoryStore] = WeakValueDictionary()
_names = itertools.count(1)


def open_memory(name: str = "") -> MemoryStore:
    """The store of that name in this process; without a name, a new one."""
    found = _stores.get(name) if name else None
    return found or MemoryStore(name)


class MemoryStore:
    """Records as the bytes another store would keep, so that nothing is shared by accident."""

    def __init__(self, name: str = "") -> None:
        self._name = name or str(next(_names))
        self._lock = threading.RLock()
        self._records: dict[tuple[str, str], tuple[Record, bytes]] = {}
        self._children: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._live: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._metrics: dict[tuple[str, str, int, int], bytes] = {}
        self._events: list[tuple[str, bytes]] = []
        _stores[self._name] = self

    @property
    def url(self) -> str:
        """Opens this store within the process only."""
        return f"memory:{self._name}"

    def find(self, kind: type[R], id: str) -> R | None:
        with self._lock:
            found = self._records.get((kind.kind, id))
        return codec.decode_record(kind, found[1]) if found else None

    def get(self, kind: type[R], id: str) -> R:
        record = self.find(kind, id)
        if record is None:
            raise NotFound(f"no {kind.kind} {id}")
        return record

    def find_many(self, kind: type[R], ids: Iterable[str]) -> dict[str, R]:
        found = {id: self.find(kind, id) for id in ids}
        return {id: record for id, record in found.items() if record is not None}

    def children(
        self,
        kind: type[R],
        parent: str,
        *,
        after: str = "",
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[R]:
        with self._lock:
            ids = self._children[kind.kind, parent]
            if newest_first:
                ids = ids[: bisect_left(ids, after)][::-1] if after else ids[::-1]
            else:
                ids = ids[bisect_right(ids, after) :]
            bodies = [self._records[kind.kind, id][1] for id in ids[:limit]]
        return [codec.decode_record(kind, body) for body in bodies]

    def live(self, kind: type[R], pool: str | None = None) -> list[R]:
        with self._lock:
            ids = [id for id, of in self._live[kind.kind].items() if pool is None or of == pool]
            bodies = [self._records[kind.kind, id][1] for id in sorted(ids)]
        return [codec.decode_record(kind, body) for body in bodies]

    def commit(self, *writes: Write) -> None:
        check_writes(writes)
        encoded = [_encode(write) for write in writes]
        with self._lock:
            self._check(writes)
            for write, body in zip(writes, encoded, strict=True):
                self._apply(write, body)

    def metrics(self, trial: str, group: str | None = None) -> list[MetricChunk]:
        with self._lock:
            keys = sorted(k for k in self._metrics if k[0] == trial and group in (None, k[1]))
            bodies = [self._metrics[key] for key in keys]
        return [codec.decode_chunk(body) for body in bodies]

    def events(self, after: str = "", *, limit: int = 1000, experiment: str = "") -> EventPage:
        first = sequence_of(after)
        found: list[Event] = []
        with self._lock:
            for place, (of, body) in enumerate(self._events[first:], start=first + 1):
                if len(found) == limit:
                    break
                if not experiment or of == experiment:
                    found.append(codec.decode_event(body))
                    first = place
        return EventPage(tuple(found), cursor_of(first))

    def newest_cursor(self) -> str:
        with self._lock:
            return cursor_of(len(self._events))

    def close(self) -> None:
        return None

    def _check(self, writes: tuple[Write, ...]) -> None:
        for write in writes:
            if isinstance(write, Fence):
                stored = self._records.get((Trial.kind, write.trial))
                token = stored[0].token if stored and isinstance(stored[0], Trial) else None
                if token != write.token:
                    raise fenced(write.trial, write.token, token)
        for write in writes:
            if isinstance(write, Put | Delete):
                stored = self._records.get((write.record.kind, write.record.id))
                found = stored[0].version if stored else None
                expected = write.record.version or (None if isinstance(write, Put) else 0)
                if found != expected:
                    raise conflict(write.record, found)

    def _apply(self, write: Write, body: bytes) -> None:
        if isinstance(write, Put | Delete):
            self._remove(write.record)
            if isinstance(write, Put):
                self._insert(write.record, body)
        elif isinstance(write, Append):
            self._events.append((write.event.experiment, body))
        elif isinstance(write, AppendMetrics):
            chunk = write.chunk
            self._metrics.setdefault((chunk.trial, chunk.group, chunk.attempt, chunk.seq), body)

    def _insert(self, record: Record, body: bytes) -> None:
        written = record.model_copy(update={"version": record.version + 1})
        self._records[record.kind, record.id] = (written, body)
        insort(self._children[record.kind, record.parent], record.id)
        if record.live:
            self._live[record.kind][record.id] = record.pool_name

    def _remove(self, record: Record) -> None:
        stored = self._records.pop((record.kind, record.id), None)
        if stored:
            self._children[record.kind, stored[0].parent].remove(record.id)
            self._live[record.kind].pop(record.id, None)


def _encode(write: Write) -> bytes:
    match write:
        case Put(record):
            return codec.encode_record(record)
        case Append(event):
            return codec.encode_event(event)
        case AppendMetrics(chunk):
            return codec.encode_chunk(chunk)
        case _:
            return b""
