"""The SQLite store keeps the whole contract, and what only a file can break."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from burst.core.errors import StoreError, Unreachable
from burst.core.model import Experiment, Node, Trial
from burst.core.store import open_store
from burst.core.store import sqlite_file as file_module
from burst.core.store.port import Append, AppendMetrics, Put
from burst.core.store.sqlite import SqliteStore, children_query, events_query, live_query
from burst.core.testing import examples
from burst.core.testing.examples import EXPERIMENT, TRIAL
from burst.core.testing.process_contract import ProcessContract
from burst.core.testing.store_contract import StoreContract


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "store.db", busy_s=20.0)) as store:
        yield store


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        with closing(SqliteStore(tmp_path / "store.db", busy_s=20.0)) as store:
            yield store


class TestSqliteStoreOfManyProcesses(ProcessContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        with closing(SqliteStore(tmp_path / "store.db", busy_s=20.0)) as store:
            yield store


# --- what it costs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (children_query("trial", EXPERIMENT, "", False), "records_children"),
        (children_query("trial", EXPERIMENT, TRIAL, False), "records_children"),
        (children_query("trial", EXPERIMENT, TRIAL, True), "records_children"),
        (live_query("trial", None), "records_live"),
        (live_query("trial", "local"), "records_live"),
        (events_query(5, EXPERIMENT), "events_experiment"),
        (events_query(5, ""), "INTEGER PRIMARY KEY"),
    ],
)
def test_every_list_searches_an_index(
    store: SqliteStore, query: tuple[str, tuple[object, ...]], index: str
) -> None:
    plan = _plan(store, *query)
    assert re.search(rf"^SEARCH \w+ USING .*{index}", plan)
    assert "SCAN" not in plan


@pytest.mark.parametrize(
    "query", [children_query("trial", EXPERIMENT, "", True), live_query("trial", "local")]
)
def test_a_page_is_read_in_order_and_not_sorted(
    store: SqliteStore, query: tuple[str, tuple[object, ...]]
) -> None:
    assert "TEMP B-TREE" not in _plan(store, *query)


def test_the_live_index_holds_live_records_only(store: SqliteStore) -> None:
    store.commit(*(Put(examples.node(id=f"node-{n:011d}", gone=1.0)) for n in range(80)))
    store.commit(Put(examples.node()))
    assert [node.id for node in store.live(Node)] == [examples.node().id]
    with closing(sqlite3.connect(_path(store))) as connection:
        partial = "SELECT partial FROM pragma_index_list('records') WHERE name = 'records_live'"
        assert connection.execute(partial).fetchone() == (1,)


def test_opening_a_store_imports_neither_fsspec_nor_boto3(tmp_path: Path) -> None:
    program = (
        "import sys; from burst.core.store import open_store; open_store(sys.argv[1])\n"
        "print([m for m in ('fsspec', 'boto3', 'botocore', 'yaml', 'torch') if m in sys.modules])"
    )
    url = f"sqlite://{tmp_path}/store.db"
    answer = subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


# --- what survives -------------------------------------------------------------------------------


def test_a_log_cut_off_at_any_byte_holds_whole_commits(tmp_path: Path) -> None:
    commits = 6
    store = SqliteStore(tmp_path / "store.db")
    for number in range(commits):
        store.commit(Put(examples.trial(number)), Append(examples.event()))
    torn = tmp_path / "torn"
    torn.mkdir()
    shutil.copy(tmp_path / "store.db", torn / "whole.db")
    log = (tmp_path / "store.db-wal").read_bytes()
    store.close()
    found = []
    for length in (*range(0, len(log), 1500), len(log)):
        shutil.copy(torn / "whole.db", torn / "store.db")
        (torn / "store.db-wal").write_bytes(log[:length])
        with closing(SqliteStore(torn / "store.db")) as opened:
            trials = opened.children(Trial, EXPERIMENT)
            assert len(trials) == len(opened.events().events)
            assert [trial.number for trial in trials] == list(range(len(trials)))
            found.append(len(trials))
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0, commits)


def test_commits_of_records_are_fsynced_and_those_of_metrics_are_not(store: SqliteStore) -> None:
    seen: list[str] = []
    connection = store._file._open()
    connection.set_trace_callback(seen.append)
    store.commit(Put(examples.trial()))
    store.commit(AppendMetrics(examples.chunk()))
    store.commit(Append(examples.event()), Put(examples.node()))
    levels = [line.split()[-1] for line in seen if "synchronous" in line]
    assert levels == ["FULL", "NORMAL", "FULL"]


def test_processes_that_open_a_new_store_at_once_all_succeed(tmp_path: Path) -> None:
    gate = threading.Barrier(6)
    stores: list[SqliteStore] = []

    def opened() -> None:
        gate.wait()
        stores.append(SqliteStore(tmp_path / "store.db"))

    threads = [threading.Thread(target=opened) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 6
    for number, store in enumerate(stores):
        store.commit(Put(examples.trial(number)))
    assert len(stores[0].children(Trial, EXPERIMENT)) == 6
    for store in stores:
        store.close()


@pytest.mark.parametrize("moment", range(8))
def test_a_store_that_another_makes_at_any_moment_of_the_opening_is_opened(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    plain, begun = sqlite3.connect, []

    def watched(*args: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = plain(*args, **named)
        connection.set_trace_callback(at_its_moment)
        return connection

    def at_its_moment(statement: str) -> None:
        begun.append(statement)
        if len(begun) == moment + 1:
            monkeypatch.setattr(sqlite3, "connect", plain)
            with suppress(Unreachable), closing(SqliteStore(path, busy_s=0.0)) as other:
                other.commit(Put(examples.trial()))

    monkeypatch.setattr(sqlite3, "connect", watched)
    with closing(SqliteStore(path)) as store:
        assert len(begun) > moment
        assert store.children(Trial, EXPERIMENT) or "BEGIN IMMEDIATE" in begun[: moment + 1]


def test_a_process_killed_while_it_made_the_file_leaves_one_that_opens(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        store.commit(Put(examples.trial()))
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        assert store.get(Trial, TRIAL).version == 1


def test_a_fork_waits_for_the_commit_of_another_thread(store: SqliteStore) -> None:
    store.commit(Put(examples.trial()))
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with store._file.transaction(durable=False):
            inside.set()
            leave.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait(20)
    threading.Timer(0.05, leave.set).start()
    child = os.fork()
    if child == 0:
        os._exit(0 if leave.is_set() and store.find(Trial, TRIAL) else 1)
    assert os.waitpid(child, 0)[1] == 0
    holder.join()
    assert store.get(Trial, TRIAL).version == 1


def test_only_the_owner_can_read_the_file(store: SqliteStore) -> None:
    store.commit(Put(examples.trial()))
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        assert _path(store).with_name(name).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["with space", "100%", "what?#now", "naïve"])
def test_any_folder_name_makes_a_url_that_opens(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with closing(SqliteStore(tmp_path / name / "store.db")) as store:
        store.commit(Put(examples.trial()))
        assert open_store(store.url).get(Trial, TRIAL).version == 1
    assert {path.name for path in tmp_path.iterdir()} >= {name}


# --- what is refused, in words -------------------------------------------------------------------


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("dear diary, " * 1000)
    with pytest.raises(StoreError, match="not a whole burst store") as caught:
        SqliteStore(path)
    assert "BURST_HOME" in caught.value.mend
    assert path.read_text() == "dear diary, " * 1000


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is not a burst store"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_store_of_a_newer_burst_is_refused(store: SqliteStore) -> None:
    store.close()
    with closing(sqlite3.connect(_path(store))) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="newer burst") as caught:
        SqliteStore(_path(store))
    assert "version 99" in caught.value.why


def test_a_record_of_a_newer_burst_is_refused(store: SqliteStore) -> None:
    store.commit(Put(examples.trial()))
    with closing(sqlite3.connect(_path(store))) as connection, connection:
        connection.execute(
            """UPDATE records SET body = CAST('{"flavour": "new", ' || substr(body, 2) AS BLOB)"""
        )
    with pytest.raises(StoreError, match="cannot read a record of kind 'trial'"):
        store.get(Trial, TRIAL)


@pytest.mark.parametrize(
    ("offset", "what"),
    [
        (0, "not a whole burst store"),  # the name of the format
        (60, "newer burst"),  # the schema's version
        (68, "not a burst store"),  # the application
        (100, "not a whole burst store"),  # the table of tables
        (4096, "not a whole burst store"),  # the records
    ],
)
def test_a_damaged_file_is_an_error_in_words(tmp_path: Path, offset: int, what: str) -> None:
    path = tmp_path / "store.db"
    with closing(SqliteStore(path)) as store:
        store.commit(*(Put(examples.trial(number)) for number in range(30)))
    whole = bytearray(path.read_bytes())
    whole[offset : offset + 4] = b"\x5a" * 4
    path.write_bytes(whole)
    with pytest.raises(StoreError, match=what), closing(SqliteStore(path)) as store:
        store.children(Trial, EXPERIMENT)


def test_a_full_disk_is_an_error_in_words_and_loses_nothing(store: SqliteStore) -> None:
    store.commit(Put(examples.trial()))
    connection = store._file._open()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="cannot grow") as caught:
        store.commit(Put(examples.node()), Put(examples.experiment(source="x" * 100_000)))
    assert "free space" in caught.value.mend
    assert store.get(Trial, TRIAL).version == 1
    assert store.find(Node, examples.node().id) is None
    assert store.find(Experiment, EXPERIMENT) is None
    store.commit(Put(examples.node()))  # the disk has room again


def test_a_store_that_another_holds_too_long_is_unreachable(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(SqliteStore(path, busy_s=0.05)) as store:
        store.commit(Put(examples.trial()))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unreachable, match="busy") as caught:
                store.commit(Put(examples.node()))
            assert "0.05 s" in caught.value.why
            assert store.get(Trial, TRIAL).version == 1, "readers do not wait"
            other.execute("ROLLBACK")
        store.commit(Put(examples.node()))


def test_a_folder_that_cannot_be_written_is_unreachable(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where a folder should be")
    with pytest.raises(Unreachable, match="cannot create the store") as caught:
        SqliteStore(tmp_path / "home" / "store.db")
    assert "BURST_HOME" in caught.value.mend


def test_a_store_that_became_read_only_is_unreachable(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit(Put(examples.trial()))
    store._file._open().execute("PRAGMA query_only = ON")
    with pytest.raises(Unreachable, match="cannot be used") as caught:
        store.commit(Put(examples.node()))
    assert "writable" in caught.value.mend


def test_the_schema_is_the_one_this_version_number_stands_for() -> None:
    """A change of the schema needs a new version number and a way from the old one."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(file_module._SCHEMA)
        names = connection.execute("SELECT name FROM sqlite_schema ORDER BY name").fetchall()
    assert file_module._SCHEMA_VERSION == 1
    assert [name for (name,) in names if not name.startswith("sqlite_")] == [
        "events",
        "events_experiment",
        "metrics",
        "records",
        "records_children",
        "records_live",
    ]


def _plan(store: SqliteStore, sql: str, values: tuple[object, ...]) -> str:
    rows = store._file.read(f"EXPLAIN QUERY PLAN {sql} LIMIT 5", *values)
    return "\n".join(row[3] for row in rows)


def _path(store: SqliteStore) -> Path:
    return Path(store.url.removeprefix("sqlite://"))
