"""The cache of tables: each is made once, whoever asks, and whatever becomes of who makes it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from burst.core.blobs import open_blobs
from burst.core.blobs.port import DAY_S
from burst.core.clock import SystemClock
from burst.core.launch import LAUNCH_VARIABLE
from burst.harness.data import DataError, load, pack
from burst.harness.data.text.cache import INDEX, KEPT_S, TABLES, Cache, open_cache
from tests.core.blobs.mock_s3 import BUCKET, mock_s3
from tests.harness.data.text_support import launch_in

_processes = multiprocessing.get_context("fork")
LONG_S = 60.0


class Later(SystemClock):
    def __init__(self, by: float) -> None:
        self._by = by

    def now(self) -> float:
        return super().now() + self._by


def writes(data: bytes, made: list[bytes] | None = None) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(data)
        if made is not None:
            made.append(data)

    return make


def refuses(path: Path) -> None:
    raise AssertionError("it is there already")


@pytest.fixture
def far(tmp_path: Path) -> str:
    return f"file://{tmp_path}/blobs"


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with mock_s3() as server:
        yield f"s3://{BUCKET}/state?endpoint_url={server}"


def test_a_table_is_made_once_and_found_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    path = cache.table("one", writes(b"a table"))
    assert cache.table("one", refuses) == path
    assert path.read_bytes() == b"a table"


def test_what_fails_leaves_nothing_and_is_made_by_the_next(tmp_path: Path) -> None:
    def fails(path: Path) -> None:
        path.write_bytes(b"half a ta")
        raise RuntimeError("no more text")

    cache = Cache(tmp_path)
    with pytest.raises(RuntimeError, match="no more text"):
        cache.table("one", fails)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]
    assert cache.table("one", writes(b"whole")).read_bytes() == b"whole"


def _take(folder: Path, gate: Any, turns: Path) -> None:
    def make(path: Path) -> None:
        with turns.open("a") as file:
            file.write("made\n")
        path.write_bytes(b"a table")

    gate.wait(LONG_S)
    Cache(folder).table("one", make)


def test_of_several_processes_at_once_one_makes_it(tmp_path: Path) -> None:
    gate, turns = _processes.Barrier(4), tmp_path / "turns"
    crowd = [
        _processes.Process(target=_take, args=(tmp_path / "cache", gate, turns)) for _ in range(4)
    ]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join(LONG_S)
    assert [process.exitcode for process in crowd] == [0] * 4
    assert turns.read_text() == "made\n"


def _hang(folder: Path, begun: Any) -> None:
    def make(path: Path) -> None:
        path.write_bytes(b"half a ta")
        begun.set()
        signal.pause()

    Cache(folder).table("one", make)


def test_one_who_dies_while_making_it_is_followed_by_one_who_waits(tmp_path: Path) -> None:
    begun = _processes.Event()
    first = _processes.Process(target=_hang, args=(tmp_path, begun))
    first.start()
    assert begun.wait(LONG_S)
    gate, turns = _processes.Barrier(1), tmp_path / "turns"
    second = _processes.Process(target=_take, args=(tmp_path, gate, turns))
    second.start()
    os.kill(first.pid or 0, signal.SIGKILL)
    first.join(LONG_S)
    second.join(LONG_S)
    assert second.exitcode == 0
    assert turns.read_text() == "made\n"
    assert (tmp_path / "one.arrow").read_bytes() == b"a table"


def test_another_machine_gets_it_from_the_blobs(tmp_path: Path, far: str) -> None:
    Cache(tmp_path / "here", open_blobs(far)).table("one", writes(b"a table"))
    path = Cache(tmp_path / "there", open_blobs(far)).table("one", refuses)
    assert path.read_bytes() == b"a table"


def test_another_machine_gets_it_from_a_bucket(tmp_path: Path, bucket: str) -> None:
    data = os.urandom(100_000)
    Cache(tmp_path / "here", open_blobs(bucket)).table("one", writes(data))
    path = Cache(tmp_path / "there", open_blobs(bucket)).table("one", refuses)
    assert path.read_bytes() == data


def test_two_machines_that_begin_at_once_both_end_with_a_whole_one(
    tmp_path: Path, far: str
) -> None:
    other = Cache(tmp_path / "there", open_blobs(far))

    def meanwhile(path: Path) -> None:
        other.table("one", writes(b"theirs"))
        path.write_bytes(b"ours")

    here = Cache(tmp_path / "here", open_blobs(far))
    assert here.table("one", meanwhile).read_bytes() == b"ours"
    third = Cache(tmp_path / "third", open_blobs(far)).table("one", refuses)
    assert third.read_bytes() in (b"ours", b"theirs")


def test_damaged_bytes_in_the_blobs_are_made_anew(tmp_path: Path, far: str) -> None:
    blobs = open_blobs(far)
    Cache(tmp_path / "here", blobs).table("one", writes(b"a table"))
    (info,) = blobs.list(TABLES)
    blobs.put(info.key, b"a tablf")
    made: list[bytes] = []
    path = Cache(tmp_path / "there", blobs).table("one", writes(b"a table", made))
    assert path.read_bytes() == b"a table"
    assert made


def test_an_index_that_says_nothing_is_made_anew(tmp_path: Path, far: str) -> None:
    blobs = open_blobs(far)
    blobs.put(f"{INDEX}one.json", b"{}")
    assert Cache(tmp_path, blobs).table("one", writes(b"a table")).read_bytes() == b"a table"


def test_blobs_that_do_not_answer_cost_nothing_but_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "blobs").mkdir()
    blobs = open_blobs(f"file://{tmp_path}/blobs")
    (tmp_path / "blobs").rmdir()
    (tmp_path / "blobs").write_text("in the way")
    path = Cache(tmp_path / "here", blobs).table("one", writes(b"a table"))
    assert path.read_bytes() == b"a table"
    assert "a table stays on this machine" in caplog.text


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match=r"cannot be kept in .*/file/cache"):
        Cache(tmp_path / "file" / "cache").table("one", refuses)


OLD, YOUNG, NEW = (f"burst-{number:040x}" for number in range(3))


def test_what_nobody_uses_for_thirty_days_goes_here_and_in_the_blobs(
    tmp_path: Path, far: str
) -> None:
    blobs, folder = open_blobs(far), tmp_path / "cache"
    Cache(folder, blobs).table(OLD, writes(b"an old table"))
    (folder / f"{'0' * 64}.seen").touch()
    (folder / f".burst-{'0' * 16}").touch()
    Cache(folder, blobs, Later(KEPT_S - DAY_S)).table(YOUNG, writes(b"a young one"))
    assert (folder / f"{OLD}.arrow").exists()
    Cache(folder, blobs, Later(KEPT_S + DAY_S)).table(NEW, writes(b"a new one"))
    assert not list(folder.glob(f"*{OLD}*")) + list(folder.glob("*.seen"))
    assert not list(folder.glob(".burst-*"))
    assert [info.key for info in blobs.list("data/") if OLD in info.key] == []


def test_a_table_in_use_stays(tmp_path: Path) -> None:
    Cache(tmp_path).table(OLD, writes(b"a table"))
    Cache(tmp_path, clock=Later(KEPT_S - DAY_S)).table(OLD, refuses)
    Cache(tmp_path, clock=Later(KEPT_S + DAY_S)).table(NEW, writes(b"another"))
    assert (tmp_path / f"{OLD}.arrow").exists()


def test_a_table_that_other_machines_fetch_stays_in_the_blobs(tmp_path: Path, far: str) -> None:
    blobs = open_blobs(far)
    Cache(tmp_path / "here", blobs).table(OLD, writes(b"a table"))
    (info,) = blobs.list(INDEX)
    path = Path(str(blobs.local_path(info.key)))
    os.utime(path, (0, 0))
    Cache(tmp_path / "there", blobs).table(OLD, refuses)
    assert path.stat().st_mtime > 0


def test_other_files_in_a_folder_of_ones_own_are_never_removed(tmp_path: Path) -> None:
    mine = [tmp_path / name for name in ("mine.arrow", "burst-notes.txt", "poetry.lock", "a.seen")]
    for path in mine:
        path.touch()
        os.utime(path, (0, 0))
    Cache(tmp_path).table(NEW, writes(b"a table"))
    assert all(path.exists() for path in mine)


def test_without_a_launch_it_lies_in_burst_home_and_is_not_shared(burst_home: Path) -> None:
    cache = open_cache()
    assert (cache.folder, cache.blobs) == (burst_home / "cache" / "data", None)


def test_in_a_trial_it_lies_in_the_nodes_home_whatever_home_its_container_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "node-home"
    home.mkdir()
    (home / ".burst-state").touch()
    for url, shared in ((f"file://{home}/blobs", False), (f"file://{tmp_path}/share", True)):
        spec = launch_in(home / "nodes" / "node-1" / "alloc-1", url)
        monkeypatch.setenv(LAUNCH_VARIABLE, str(spec.path / "spec.json"))
        cache = open_cache(share=True)
        assert cache.folder == home / "cache" / "data"
        assert (cache.blobs is not None) == shared
        assert open_cache().blobs is None


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": _cut,
    "cut between pieces": lambda data: data[:-8],
    "empty": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "another head": lambda data: b"garbage!" * 4 + data[32:],
    "another end": lambda data: data[:-8] + b"garbage!",
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_a_table_that_was_damaged_is_made_anew(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"input_ids": [1, 2, 3]}\n' * 9)
    cache = tmp_path / "cache"

    def made() -> list[Any]:
        loaded = load(rows, cache=cache)
        return [list(loaded), list(pack(loaded, 4, cache=cache))]

    whole = made()
    assert made() == whole
    tables = list(cache.glob("*.arrow"))
    assert len(tables) == 2
    for table in tables:
        other = table.with_suffix(".other")  # the table itself is mapped into memory
        other.write_bytes(DAMAGES[damage](table.read_bytes()))
        other.replace(table)
    assert made() == whole
    assert len([r for r in caplog.records if "damaged table" in r.getMessage()]) == 2
    caplog.clear()
    assert made() == whole
    assert not caplog.records


@pytest.mark.parametrize("place", ["", "s3://bucket/folder", "file:///tmp/tables"])
def test_what_is_no_folder_of_this_machine_keeps_no_tables(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="no folder"):
        open_cache(place)
    assert not list(tmp_path.iterdir())
