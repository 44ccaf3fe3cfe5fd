"""The store in one SQLite file: many processes on one machine, nothing running.

Write-ahead log, so that readers never wait for a writer. Each commit is one `BEGIN IMMEDIATE`
transaction: all of it or none, whenever the process is killed. A commit that writes records is
fsynced before it returns; one that only adds metrics or events is not, because what a power cut
can take of it is after the newest checkpoint and will be trained again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

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
from burst.core.store.sqlite_file import DatabaseFile

R = TypeVar("R", bound=Record)
Row = tuple[str, tuple[object, ...]]


class SqliteStore:
    """Safe for threads and processes of one machine, and across `fork`."""

    def __init__(self, path: Path, *, busy_s: float = 30.0) -> None:
        """Opens the store at `path`, creating it. `busy_s`: how long to wait for other writers.

        Raises:
            Unreachable: the file cannot be opened, or others held it for `busy_s`.
            StoreError: it is not a burst store, is damaged, or is of a newer burst.
        """
        self._file = DatabaseFile(path, busy_s)

    @property
    def url(self) -> str:
        return f"sqlite://{self._file.path}"

    def find(self, kind: type[R], id: str) -> R | None:
        rows = self._file.read("SELECT body FROM records WHERE kind = ? AND id = ?", kind.kind, id)
        return codec.decode_record(kind, rows[0][0]) if rows else None

    def get(self, kind: type[R], id: str) -> R:
        record = self.find(kind, id)
        if record is None:
            raise NotFound(f"no {kind.kind} {id}")
        return record

    def find_many(self, kind: type[R], ids: Iterable[str]) -> dict[str, R]:
        wanted = "SELECT value FROM json_each(?)"
        sql = f"SELECT id, body FROM records WHERE kind = ? AND id IN ({wanted})"
        rows = self._file.read(sql, kind.kind, json.dumps(list(ids)))
        return {id: codec.decode_record(kind, body) for id, body in rows}

    def children(
        self,
        kind: type[R],
        parent: str,
        *,
        after: str = "",
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[R]:
        sql, values = children_query(kind.kind, parent, after, newest_first)
        rows = self._file.read(sql + " LIMIT ?", *values, -1 if limit is None else limit)
        return [codec.decode_record(kind, body) for (body,) in rows]

    def live(self, kind: type[R], pool: str | None = None) -> list[R]:
        sql, values = live_query(kind.kind, pool)
        return [codec.decode_record(kind, body) for (body,) in self._file.read(sql, *values)]

    def commit(self, *writes: Write) -> None:
        check_writes(writes)
        if not writes:
            return
        rows = [_statement(write) for write in writes]
        durable = any(isinstance(write, Put | Delete) for write in writes)
        with self._file.transaction(durable=durable) as connection:
            for write in writes:
                if isinstance(write, Fence):
                    _check_fence(connection, write)
            for write, (sql, values) in zip(writes, rows, strict=True):
                changed = connection.execute(sql, values).rowcount
                if isinstance(write, Put | Delete) and changed == 0:
                    raise conflict(write.record, _version(connection, write.record))

    def metrics(self, trial: str, group: str | None = None) -> list[MetricChunk]:
        sql = "SELECT body FROM metrics WHERE trial = ?"
        values: tuple[object, ...] = (trial,)
        if group is not None:
            sql, values = sql + " AND name = ?", (trial, group)
        rows = self._file.read(sql + " ORDER BY name, attempt, seq", *values)
        return [codec.decode_chunk(body) for (body,) in rows]

    def events(self, after: str = "", *, limit: int = 1000, experiment: str = "") -> EventPage:
        sql, values = events_query(sequence_of(after), experiment)
        rows = self._file.read(sql + " LIMIT ?", *values, limit)
        found: list[Event] = [codec.decode_event(body) for _, body in rows]
        return EventPage(tuple(found), cursor_of(rows[-1][0] if rows else sequence_of(after)))

    def newest_cursor(self) -> str:
        rows = self._file.read("SELECT coalesce(max(sequence), 0) FROM events")
        return cursor_of(rows[0][0])

    def close(self) -> None:
        self._file.close()


# Queries name their index, so that one that could not use it fails instead of scanning history.


def children_query(kind: str, parent: str, after: str, newest_first: bool) -> Row:
    sql = "SELECT body FROM records INDEXED BY records_children WHERE kind = ? AND parent = ?"
    values: tuple[object, ...] = (kind, parent)
    if after:
        sql += " AND id < ?" if newest_first else " AND id > ?"
        values = (*values, after)
    return sql + (" ORDER BY id DESC" if newest_first else " ORDER BY id"), values


def live_query(kind: str, pool: str | None) -> Row:
    sql = "SELECT body FROM records INDEXED BY records_live WHERE live = 1 AND kind = ?"
    if pool is None:
        return sql + " ORDER BY id", (kind,)
    return sql + " AND pool = ? ORDER BY id", (kind, pool)


def events_query(sequence: int, experiment: str) -> Row:
    if not experiment:
        return "SELECT sequence, body FROM events WHERE sequence > ? ORDER BY sequence", (
            sequence,
        )
    sql = "SELECT sequence, body FROM events INDEXED BY events_experiment"
    sql += " WHERE experiment = ? AND sequence > ? ORDER BY sequence"
    return sql, (experiment, sequence)


def _statement(write: Write) -> Row:
    """The SQL of one write, encoded before the transaction begins so that it holds no lock."""
    match write:
        case Put(record):
            return _put(record)
        case Delete(record):
            return (
                "DELETE FROM records WHERE kind = ? AND id = ? AND version = ?",
                (record.kind, record.id, record.version),
            )
        case Append(event):
            return (
                "INSERT INTO events (experiment, body) VALUES (?, ?)",
                (event.experiment, codec.encode_event(event)),
            )
        case AppendMetrics(chunk):
            return (
                "INSERT INTO metrics (trial, name, attempt, seq, body) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (chunk.trial, chunk.group, chunk.attempt, chunk.seq, codec.encode_chunk(chunk)),
            )
        case Fence():
            return "SELECT 1", ()


def _put(record: Record) -> Row:
    token = record.token if isinstance(record, Trial) else None
    index = (record.parent, record.pool_name, record.live, token)
    body = codec.encode_record(record)
    if record.version == 0:
        return (
            "INSERT INTO records (kind, id, parent, pool, live, token, version, body)"
            " VALUES (?, ?, ?, ?, ?, ?, 1, ?) ON CONFLICT DO NOTHING",
            (record.kind, record.id, *index, body),
        )
    return (
        "UPDATE records SET parent = ?, pool = ?, live = ?, token = ?, version = ?, body = ?"
        " WHERE kind = ? AND id = ? AND version = ?",
        (*index, record.version + 1, body, record.kind, record.id, record.version),
    )


def _check_fence(connection: sqlite3.Connection, fence: Fence) -> None:
    row = connection.execute(
        "SELECT token FROM records WHERE kind = ? AND id = ?", (Trial.kind, fence.trial)
    ).fetchone()
    if row is None or row[0] != fence.token:
        raise fenced(fence.trial, fence.token, row[0] if row else None)


def _version(connection: sqlite3.Connection, record: Record) -> int | None:
    row = connection.execute(
        "SELECT version FROM records WHERE kind = ? AND id = ?", (record.kind, record.id)
    ).fetchone()
    return int(row[0]) if row else None
