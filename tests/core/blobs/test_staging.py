"""What a writer leaves when it dies is removed by the next one, and a living one's is not."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from burst.core.blobs.folder import FolderBlobs
from burst.core.blobs.staging import FOLDER, machine

HALF = b"half a blob"
SHA = "00" * 32


def unfinished(root: Path) -> list[Path]:
    return [path for path in root.rglob(f"{FOLDER}/*/*") if path.name != "lock"]


def foreign(root: Path, *, age: float) -> Path:
    """What a writer on another machine that is gone would have left so many seconds ago."""
    folder = root / FOLDER / f"{'0' * 12}-{'1' * 16}"
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    (folder / "half").write_bytes(HALF)
    then = time.time() - age
    os.utime(folder, (then, then))
    return folder


def test_a_killed_writers_files_go_with_the_next_put_and_its_blobs_stay(tmp_path: Path) -> None:
    program = (
        "import sys, signal\n"
        "from burst.core.blobs import open_blobs\n"
        "blobs = open_blobs(sys.argv[1])\n"
        "blobs.put('whole', b'1')\n"
        "batch = blobs.batch()\n"
        "for n in range(5): batch.put(f'a/{n}', bytes(300_000), '00' * 32)\n"
        "print('ready', flush=True)\n"
        "signal.pause()"
    )
    blobs = FolderBlobs(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", program, blobs.url], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        blobs.put("other", b"1")
        assert len(unfinished(tmp_path)) == 5, "it lives"
        writer.send_signal(signal.SIGKILL)
    FolderBlobs(tmp_path).put("other", b"2")
    assert unfinished(tmp_path) == []
    assert [info.key for info in blobs.list("")] == ["other", "whole"]


def test_another_writer_of_the_same_process_is_left_alone(tmp_path: Path) -> None:
    first, second = FolderBlobs(tmp_path), FolderBlobs(tmp_path)
    batch = first.batch()
    batch.put("a", HALF, SHA)
    second.put("b", b"1")
    batch.finish()
    assert first.get("a") == HALF


def test_a_writer_that_ends_leaves_no_trace(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    batch = blobs.batch()
    batch.put("a", HALF, SHA)
    assert (tmp_path / FOLDER).is_dir()
    del batch, blobs
    assert list(tmp_path.iterdir()) == []
    program = "import sys; from burst.core.blobs import open_blobs; open_blobs(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", f"{program}.put('a', b'1')", f"file://{tmp_path}"], check=True
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_a_forked_child_writes_beside_its_parent_and_takes_nothing_along(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    batch = blobs.batch()
    batch.put("parent", HALF, SHA)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            blobs.put("child", b"1")
            del blobs, batch
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    batch.finish()
    assert [info.key for info in blobs.list("")] == ["child", "parent"]


@pytest.mark.parametrize(("age", "stays"), [(60.0, True), (3599.0, True), (3700.0, False)])
def test_of_another_machine_only_what_is_old_goes(tmp_path: Path, age: float, stays: bool) -> None:
    folder = foreign(tmp_path, age=age)
    FolderBlobs(tmp_path).put("a", b"1")
    assert folder.exists() == stays


def test_of_another_machine_what_is_seen_to_be_locked_stays_however_old(tmp_path: Path) -> None:
    folder = foreign(tmp_path, age=10**6)
    with (folder / "lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        FolderBlobs(tmp_path).put("a", b"1")
        assert folder.exists()


@pytest.mark.parametrize(("age", "stays"), [(3700.0, True), (90_000.0, False)])
def test_where_there_are_no_locks_a_day_is_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: float, stays: bool
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    folder = foreign(tmp_path, age=age)
    blobs = FolderBlobs(tmp_path)
    blobs.put("a", b"1")
    assert folder.exists() == stays
    assert blobs.get("a") == b"1"


def test_a_writer_whose_folder_was_taken_goes_on_in_a_new_one(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    blobs.put("a", b"1")
    for path in sorted((tmp_path / FOLDER).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    blobs.put("b", b"2")
    assert blobs.get("b") == b"2"


@pytest.mark.parametrize("moment", ["made", "locked"])
def test_two_that_begin_at_once_do_not_take_each_others_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """A sweep comes between a writer's first steps, when it does not show yet that it lives."""
    from burst.core.blobs.disk import Disk

    lock = Disk.lock
    swept: list[Path] = []

    def sweeping(self: Disk, path: Path, *, create: bool) -> tuple[int, bool]:
        if create and not swept:
            swept.append(path.parent)
            if moment == "made":
                path.parent.rmdir()
                return lock(self, path, create=create)
            found = lock(self, path, create=create)
            path.unlink()
            path.parent.rmdir()
            return found
        return lock(self, path, create=create)

    monkeypatch.setattr(Disk, "lock", sweeping)
    blobs = FolderBlobs(tmp_path)
    blobs.put("a", b"1")
    assert blobs.get("a") == b"1"
    assert not swept[0].exists()


def test_a_part_of_the_blobs_may_be_a_link_to_another_disk(
    disk: Path, shared_memory: Path
) -> None:
    root = disk / "blobs"
    root.mkdir()
    (root / "checkpoints").symlink_to(shared_memory)
    if root.stat().st_dev == shared_memory.stat().st_dev:
        pytest.skip("there is no other disk here")
    blobs = FolderBlobs(root)
    batch = blobs.batch()
    batch.put("checkpoints/t/1", bytes(300_000), SHA)
    batch.put("logs/1", b"1", SHA)
    assert [len(list(place.rglob(f"{FOLDER}/*/*"))) for place in (root, shared_memory)] == [2, 2]
    batch.finish()
    blobs.put("checkpoints/t/2", b"2")
    assert [info.size for info in blobs.list("")] == [300_000, 1, 1]


@pytest.fixture
def shared_memory() -> object:
    import tempfile

    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no /dev/shm to stand for another disk")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_a_boot_has_one_name() -> None:
    assert machine() == machine()
    assert len(machine()) == 12
