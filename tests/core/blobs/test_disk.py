"""Past the page cache where that is possible, through it where it is not, and the same bytes."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from burst.core.blobs import disk as module
from burst.core.blobs.disk import DIRECT_FROM, PAGE, Disk, set_direct
from burst.core.blobs.folder import FolderBlobs
from burst.core.errors import StoreError, Taken
from burst.core.testing.blob_contract import pages
from burst.core.testing.faults import FaultyDisk, Plan

SIZES = (DIRECT_FROM - 1, DIRECT_FROM, DIRECT_FROM + 1, 3 * 2**20, 3 * 2**20 + PAGE - 1)


def image(size: int) -> memoryview:
    data = pages(size)
    data[:] = (os.urandom(4099) * (size // 4099 + 1))[:size]
    return data


def write(blobs: FolderBlobs, key: str, data: memoryview) -> None:
    batch = blobs.batch()
    batch.put(key, data, hashlib.sha256(data).hexdigest())
    batch.finish()


def takes_direct(folder: Path) -> bool:
    descriptor = os.open(folder / "probe", os.O_CREAT | os.O_RDWR)
    try:
        return set_direct(descriptor, True)
    finally:
        os.close(descriptor)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int]]:
    """Of every write: whether it went past the page cache, and its size."""
    seen = []
    pwrite = os.pwrite

    def noting(descriptor: int, data: Any, offset: int) -> int:
        direct = bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)
        written = pwrite(descriptor, data, offset)
        seen.append((direct, written))
        return written

    monkeypatch.setattr(os, "pwrite", noting)
    return seen


def test_large_files_go_past_the_page_cache_and_small_ones_through_it(
    disk: Path, writes: list[tuple[bool, int]]
) -> None:
    if not takes_direct(disk):
        pytest.skip("this file system takes no direct writes")
    blobs = FolderBlobs(disk)
    for size in SIZES:
        data = image(size)
        write(blobs, f"a/{size}", data)
        assert all(direct == (size >= DIRECT_FROM) for direct, _ in writes)
        assert len(writes) == (2 if size >= DIRECT_FROM and size % PAGE else 1)
        assert blobs.get(f"a/{size}") == data
        writes.clear()


@pytest.mark.parametrize("size", SIZES)
def test_a_file_system_that_takes_no_direct_writes_gets_others(
    disk: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    fcntl_ = fcntl.fcntl

    def refusing(descriptor: int, command: int, flags: int = 0) -> int:
        if command == fcntl.F_SETFL and flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return fcntl_(descriptor, command, flags)

    monkeypatch.setattr(fcntl, "fcntl", refusing)
    blobs, data, back = FolderBlobs(disk), image(size), pages(size + PAGE)
    write(blobs, "a", data)
    assert blobs.read_into("a", back) == size
    assert back[:size] == data


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("after", [0, 1])
def test_one_that_refuses_in_the_midst_gets_the_rest_through_the_page_cache(
    disk: Path, monkeypatch: pytest.MonkeyPatch, size: int, after: int
) -> None:
    """As where memory has to be aligned otherwise, or a short write ends between two blocks."""
    blobs, data, back = FolderBlobs(disk), image(size), pages(size + PAGE)
    for name in ("pwrite", "preadv"):
        monkeypatch.setattr(os, name, _refusing(getattr(os, name), after))
    write(blobs, "a", data)
    assert blobs.read_into("a", back) == size
    assert back[:size] == data


def _refusing(call: Any, after: int) -> Any:
    done: dict[int, int] = {}

    def refusing(descriptor: int, data: Any, offset: int, *flags: int) -> int:
        direct = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT
        if direct and done.get(descriptor, 0) >= after:
            raise OSError(errno.EINVAL, "Invalid argument")
        if direct:
            done[descriptor] = done.get(descriptor, 0) + 1
            short = memoryview(data[0] if isinstance(data, list) else data)[: 10 * PAGE + 1]
            os.lseek(descriptor, 0, os.SEEK_SET)
            set_direct(descriptor, False)
            moved = call(descriptor, [short] if isinstance(data, list) else short, offset)
            set_direct(descriptor, True)
            return int(moved)
        return int(call(descriptor, data, offset, *flags))

    return refusing


def test_what_is_cached_is_copied_and_what_is_not_is_read_past_the_cache(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not takes_direct(disk):
        pytest.skip("this file system takes no direct reads")
    blobs, data, back = FolderBlobs(disk), image(2**20), pages(2**20)
    turned: list[bool] = []

    def noting(descriptor: int, direct: bool) -> bool:
        turned.append(direct)
        return set_direct(descriptor, direct)

    monkeypatch.setattr(module, "set_direct", noting)
    write(blobs, "a", data)
    turned.clear()
    path = blobs.local_path("a")
    assert path is not None
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if module._cached(file.fileno(), len(data)):
            pytest.skip("this file system is all cache")
        assert blobs.read_into("a", back) == 2**20
        assert turned == [True]
        file.read()
    turned.clear()
    assert blobs.read_into("a", back) == 2**20
    assert turned == []
    assert back == data


def test_a_batch_makes_all_bytes_durable_then_names_them_then_makes_the_names_durable(
    disk: Path,
) -> None:
    plan = Plan()
    blobs = FolderBlobs(disk, FaultyDisk(plan))
    batch = blobs.batch()
    for number in range(6):
        batch.put(f"a/{number % 2}/{number}", image(5000), "00" * 32)
    plan.steps.clear()
    batch.finish()
    kinds = [step.rpartition(" ")[0] for step in plan.steps]
    assert kinds == ["fsync"] * 6 + ["rename"] * 6 + ["fsync folder"] * 4
    assert len(set(plan.steps)) == len(plan.steps)


def test_what_a_batch_leaves_unfinished_shows_nowhere(disk: Path) -> None:
    blobs = FolderBlobs(disk)
    for end in ("abort", "nothing"):
        batch = blobs.batch()
        batch.put("a/b", image(2**20), "00" * 32)
        assert list(blobs.list("")) == []
        assert blobs.info("a/b") is None
        if end == "abort":
            batch.abort()
            batch.abort()
            assert [path for path in disk.rglob("*") if path.is_file()] == [
                path for path in disk.rglob("lock")
            ]
            with pytest.raises(StoreError, match="given up"):
                batch.put("a/c", image(10), "00" * 32)


def test_a_batch_keeps_few_descriptors_open_however_many_files_it_has(disk: Path) -> None:
    blobs = FolderBlobs(disk)
    batch = blobs.batch()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(200):
        batch.put(f"a/{number}", image(10), "00" * 32)
    assert len(os.listdir("/proc/self/fd")) < before + 80
    batch.finish()
    assert len(list(blobs.list(""))) == 200


@pytest.mark.parametrize("harm", ["cut", "gone"])
def test_what_finish_calls_durable_was_looked_at_through_a_fresh_handle(
    disk: Path, harm: str
) -> None:
    """As a shared file system would have it that lost what its client thought was written."""

    class Losing(Disk):
        def sync_folder(self, path: Path) -> None:
            super().sync_folder(path)
            target = path / "b"
            if target.exists():
                os.truncate(target, 99) if harm == "cut" else target.unlink()

    batch = FolderBlobs(disk, Losing()).batch()
    batch.put("a/b", image(5000), "00" * 32)
    what = "holds 99 bytes of the 5000" if harm == "cut" else "gone right after it was written"
    with pytest.raises(StoreError, match=what):
        batch.finish()


def test_writing_and_reading_take_no_memory_of_their_own(disk: Path) -> None:
    import tracemalloc

    blobs, data, back = FolderBlobs(disk), image(16 * 2**20), pages(17 * 2**20)
    write(blobs, "warm/up", data)
    tracemalloc.start()
    try:
        write(blobs, "a", data)
        blobs.read_into("a", back)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_where_there_are_no_hard_links_a_new_blob_is_still_put_once_and_whole(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    blobs = FolderBlobs(disk)
    blobs.put_new("a", b"first")
    blobs.put_new("a", b"first")
    with pytest.raises(Taken):
        blobs.put_new("a", b"second")
    assert [info.key for info in blobs.list("")] == ["a"]
    assert blobs.get("a") == b"first"
