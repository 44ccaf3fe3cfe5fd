"""The database file under `SqliteStore`: opening, transactions, forks, and errors in words."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from burst.core.errors import BurstError, StoreError, Unreachable

_APPLICATION = 0x62757273  # "burs", in the file's header
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE records (
    kind TEXT NOT NULL, id TEXT NOT NULL, parent TEXT NOT NULL, pool TEXT NOT NULL,
    live INTEGER NOT NULL, token INTEGER, version INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT;
CREATE UNIQUE INDEX records_children ON records (kind, parent, id);
CREATE INDEX records_live ON records (kind, pool, id) WHERE live = 1;
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, experiment TEXT NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE INDEX events_experiment ON events (experiment, sequence);
CREATE TABLE metrics (
    trial TEXT NOT NULL, name TEXT NOT NULL, attempt INTEGER NOT NULL, seq INTEGER NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (trial, name, attempt, seq)
) STRICT;
"""
_WAL_LIMIT_BYTES = 64 * 2**20
_RETRY_S = 0.01


class DatabaseFile:
    """One connection behind one lock.

    SQLite's locks do not survive a fork, and a child that used an inherited connection could
    damage the file. So a fork waits for the commit in flight, and closes the connection first;
    parent and child open their own when they next need one.
    """

    def __init__(self, path: Path, busy_s: float) -> None:
        self.path = path.absolute()
        self._busy_s = busy_s
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._synchronous = ""
        with self._lock, self._errors():
            self._open()
        _open_files.add(self)

    def read(self, sql: str, *values: object) -> list[Any]:
        with self._lock, self._errors():
            return self._open().execute(sql, values).fetchall()

    @contextmanager
    def transaction(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """Everything in the block, or nothing. `durable`: on the disk when the block ends."""
        with self._lock, self._errors():
            connection = self._open()
            self._set_synchronous(connection, "FULL" if durable else "NORMAL")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Idempotent; the next call opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def hold(self) -> None:
        """Keep every other thread out, with nothing open, until `let_go`."""
        self._lock.acquire()
        self.close()

    def let_go(self) -> None:
        self._lock.release()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._create_private()
            connection = sqlite3.connect(
                self.path, timeout=self._busy_s, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _create_private(self) -> None:
        """An empty file that only its owner can read; SQLite gives its log the same mode."""
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return
        except OSError as error:
            raise Unreachable(
                f"cannot create the store {self.path}",
                why=error.strerror or str(error),
                mend="make its folder writable, or set BURST_HOME to a folder that is",
            ) from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        self._synchronous = ""
        self._use_write_ahead_log(connection)
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
        if self._schema_version(connection) == 0:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                if self._schema_version(connection) == 0:
                    for statement in _SCHEMA.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        # Two processes that open a new store at once: SQLite does not wait for a lock here.
        deadline = time.monotonic() + self._busy_s
        while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            self._refuse_foreign(connection)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if (
                    error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY
                    or time.monotonic() > deadline
                ):
                    raise
                time.sleep(_RETRY_S)

    def _schema_version(self, connection: sqlite3.Connection) -> int:
        self._refuse_foreign(connection)
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > _SCHEMA_VERSION:
            raise StoreError(
                f"the store {self.path} was made by a newer burst",
                why=f"its schema is version {version}, this burst knows {_SCHEMA_VERSION}",
                mend="install the newer burst, or set BURST_HOME to another folder",
            )
        return version

    def _refuse_foreign(self, connection: sqlite3.Connection) -> None:
        # Tables first: another may make the store in between, and makes both at once.
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        if application != _APPLICATION and (application or tables):
            raise StoreError(
                f"{self.path} is not a burst store",
                why="it is a SQLite file of another program",
                mend="set BURST_STORE or BURST_HOME to another place",
            )

    def _set_synchronous(self, connection: sqlite3.Connection, level: str) -> None:
        if level != self._synchronous:
            connection.execute(f"PRAGMA synchronous = {level}")
            self._synchronous = level

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if not isinstance(error, sqlite3.OperationalError) or not _is_busy(error):
                self.close()  # what comes next starts from the file, not from a broken connection
            raise self._in_words(error) from error

    def _in_words(self, error: sqlite3.Error) -> BurstError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        why = str(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Unreachable(
                f"the store {self.path} is busy",
                why=f"another process has held it for {self._busy_s:g} s",
                mend=f"see who has it open with `fuser {self.path}`",
            )
        if code == sqlite3.SQLITE_FULL:
            return StoreError(
                f"the store {self.path} cannot grow",
                why=why,
                mend="free space on that disk; nothing that was written before is lost",
            )
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return StoreError(
                f"{self.path} is not a whole burst store",
                why=why,
                mend="move it away and restore a copy, or set BURST_HOME to another folder",
            )
        return Unreachable(
            f"the store {self.path} cannot be used",
            why=why,
            mend="its folder must be writable and on a local disk; BURST_HOME names another",
        )


def _is_busy(error: sqlite3.Error) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


_open_files: weakref.WeakSet[DatabaseFile] = weakref.WeakSet()
_held: list[DatabaseFile] = []


def _before_fork() -> None:
    for file in list(_open_files):
        file.hold()
        _held.append(file)


def _after_fork() -> None:
    while _held:
        _held.pop().let_go()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
