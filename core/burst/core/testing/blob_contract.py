"""What every kind of blobs must keep. An adapter's tests inherit this and provide `blobs`."""

from __future__ import annotations

import hashlib
import mmap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.errors import NotFound, Taken

LARGE = bytes(range(256)) * 4096 * 3
"""3 MiB in which every part differs from its neighbours."""

BAD_KEYS = (
    "", "/", "/etc/passwd", "a//b", "a/", "../a", "a/../b", "a/..", ".", "a/./b", "a\\b", "a b",
    "a\0b", "a\nb", "C:", "~/a/*", "naïve", "a?versionId=1", "a#b", ".burst-1", "x" * 201,
    "/".join(["x" * 100] * 10),
)  # fmt: skip


def pages(size: int) -> memoryview:
    """Memory that begins on a page boundary."""
    return memoryview(mmap.mmap(-1, max(1, size)))[:size]


class BlobContract:
    @pytest.fixture
    def blobs(self) -> Blobs:
        raise NotImplementedError("the adapter's tests provide the blobs")

    @pytest.mark.parametrize("data", [b"", b"x", b"\0\r\n\xff", LARGE], ids=len)
    def test_a_blob_comes_back_as_it_was_put(self, blobs: Blobs, data: bytes) -> None:
        blobs.put("code/ab12.tar.gz", data)
        assert blobs.get("code/ab12.tar.gz") == data
        info = blobs.info("code/ab12.tar.gz")
        assert info is not None
        assert (info.key, info.size) == ("code/ab12.tar.gz", len(data))
        assert info.modified > 1.7e9

    def test_any_buffer_can_be_put(self, blobs: Blobs) -> None:
        for kind in (bytes, bytearray, memoryview):
            blobs.put(kind.__name__, kind(b"some bytes"))
            assert blobs.get(kind.__name__) == b"some bytes"

    def test_a_put_replaces_what_was_there(self, blobs: Blobs) -> None:
        blobs.put("a/b", b"a longer text")
        blobs.put("a/b", b"short")
        assert blobs.get("a/b") == b"short"
        assert [info.size for info in blobs.list("")] == [5]

    @pytest.mark.parametrize("data", [b"", b"x", LARGE], ids=len)
    def test_what_is_put_as_new_is_put_once(self, blobs: Blobs, data: bytes) -> None:
        blobs.put_new("a/marker", data)
        blobs.put_new("a/marker", memoryview(data))
        with pytest.raises(Taken, match="a/marker"):
            blobs.put_new("a/marker", data + b"1")
        assert blobs.get("a/marker") == data
        blobs.delete("a/marker")
        blobs.put_new("a/marker", data + b"1")
        blobs.put("a/marker", b"2")
        assert blobs.get("a/marker") == b"2"
        with pytest.raises(Taken):
            blobs.put_new("a/marker", b"3")
        assert [info.key for info in blobs.list("")] == ["a/marker"]

    def test_of_many_who_put_one_new_blob_one_succeeds_and_the_others_are_told(
        self, blobs: Blobs
    ) -> None:
        for turn in range(5):
            gate = threading.Barrier(6)
            outcomes = list(self._racing(blobs, f"a/{turn}", gate))
            (winner,) = [data for data, won in outcomes if won]
            assert blobs.get(f"a/{turn}") == winner

    @staticmethod
    def _racing(blobs: Blobs, key: str, gate: threading.Barrier) -> list[tuple[bytes, bool]]:
        def put(number: int) -> tuple[bytes, bool]:
            data = b"%d" % number * 1000
            gate.wait()
            try:
                blobs.put_new(key, data)
            except Taken:
                return data, False
            return data, True

        with ThreadPoolExecutor(gate.parties) as pool:
            return list(pool.map(put, range(gate.parties)))

    def test_a_blob_that_is_not_there_is_not_found(self, blobs: Blobs, tmp_path: Path) -> None:
        blobs.put("a/b", b"")
        for key in ("nothing", "a", "a/b/c", "a/bc"):
            assert blobs.info(key) is None
            assert blobs.local_path(key) is None
            with pytest.raises(NotFound, match=key):
                blobs.get(key)
            with pytest.raises(NotFound, match=key):
                blobs.get_range(key, 0, 1)
            with pytest.raises(NotFound, match=key):
                blobs.get_file(key, tmp_path / "copy")
            blobs.delete(key)
        assert not (tmp_path / "copy").exists()
        assert blobs.get("a/b") == b""

    @pytest.mark.parametrize(
        ("start", "stop", "expected"),
        [
            (0, 10, b"0123456789"),
            (3, 5, b"34"),
            (8, 100, b"89"),
            (10, 12, b""),
            (50, 60, b""),
            (4, 4, b""),
            (5, 4, b""),
        ],
    )
    def test_a_range_is_half_open_and_ends_with_the_blob(
        self, blobs: Blobs, start: int, stop: int, expected: bytes
    ) -> None:
        blobs.put("digits", b"0123456789")
        assert blobs.get_range("digits", start, stop) == expected

    @pytest.mark.parametrize("size", [0, 1, 4095, 4096, 2**20 - 1, 2**20, 2**20 + 1, 3_000_001])
    def test_a_batch_puts_any_size_from_any_place_in_memory(self, blobs: Blobs, size: int) -> None:
        memory = pages(size + 1)
        memory[:] = (LARGE * 2)[: size + 1]
        batch = blobs.batch()
        expected = {}
        for start in (0, 1):
            data = memory[start : start + size]
            expected[f"batch/{start}"] = bytes(data)
            batch.put(f"batch/{start}", data, hashlib.sha256(data).hexdigest())
        batch.finish()
        batch.abort()
        assert {info.key: info.size for info in blobs.list("")} == dict.fromkeys(expected, size)
        assert {key: blobs.get(key) for key in expected} == expected

    def test_a_batch_takes_puts_from_several_threads(self, blobs: Blobs) -> None:
        batch = blobs.batch()

        def put(number: int) -> None:
            data = bytes([number]) * (number * 10_000)
            batch.put(f"a/{number % 5}/{number}", data, hashlib.sha256(data).hexdigest())

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(put, range(100)))
        batch.finish()
        assert len(list(blobs.list(""))) == 100
        for number in range(100):
            data = blobs.get(f"a/{number % 5}/{number}")
            assert (len(data), set(data)) == (number * 10_000, {number} if number else set())

    def test_a_batch_replaces_what_was_there(self, blobs: Blobs) -> None:
        blobs.put("a/b", b"a longer text")
        batch = blobs.batch()
        batch.put("a/b", b"short", hashlib.sha256(b"short").hexdigest())
        batch.finish()
        assert blobs.get("a/b") == b"short"

    def test_an_empty_batch_is_finished_at_once_and_may_be_given_up_twice(
        self, blobs: Blobs
    ) -> None:
        batch = blobs.batch()
        batch.finish()
        batch.abort()
        batch.abort()
        assert list(blobs.list("")) == []

    @pytest.mark.parametrize("size", [0, 1, 4095, 4096, 2**20, 2**20 + 1, 3_000_001])
    @pytest.mark.parametrize("room", [-1, 0, 1, 4096], ids="room {:+}".format)
    def test_a_blob_is_read_into_memory_as_far_as_both_go(
        self, blobs: Blobs, size: int, room: int
    ) -> None:
        data = (LARGE * 2)[:size]
        blobs.put("a/b", data)
        length = max(0, size + room)
        for start in (0, 1):
            memory = pages(length + 1)
            memory[:] = b"\xee" * (length + 1)
            target = memory[start : start + length]
            assert blobs.read_into("a/b", target) == size
            whole = min(size, length)
            assert bytes(target[:whole]) == data[:whole]
            if length == whole:
                assert memory[length if start == 0 else 0] == 0xEE

    def test_what_is_not_there_is_not_read_into_memory(self, blobs: Blobs) -> None:
        with pytest.raises(NotFound, match="a/b"):
            blobs.read_into("a/b", memoryview(bytearray(10)))

    def test_threads_read_into_memory_side_by_side(self, blobs: Blobs) -> None:
        for number in range(4):
            blobs.put(f"a/{number}", bytes([number]) * 2_000_000)

        def read(number: int) -> None:
            buffer = bytearray(2_000_000)
            for _ in range(3):
                assert blobs.read_into(f"a/{number}", memoryview(buffer)) == len(buffer)
                assert set(buffer) == {number}

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(read, range(4)))

    def test_files_go_in_and_out_and_stay(self, blobs: Blobs, tmp_path: Path) -> None:
        source, copy = tmp_path / "source", tmp_path / "new" / "copy"
        source.write_bytes(LARGE)
        blobs.put_file("files/large", source)
        assert source.read_bytes() == LARGE
        blobs.get_file("files/large", copy)
        assert copy.read_bytes() == LARGE
        blobs.put("files/large", b"other")
        blobs.get_file("files/large", copy)
        assert copy.read_bytes() == b"other"
        assert [path.name for path in copy.parent.iterdir()] == ["copy"]

    def test_a_file_that_is_not_there_cannot_be_put(self, blobs: Blobs, tmp_path: Path) -> None:
        with pytest.raises(NotFound, match="nothing"):
            blobs.put_file("key", tmp_path / "nothing")
        assert blobs.info("key") is None

    def test_a_list_is_in_the_order_of_keys(self, blobs: Blobs) -> None:
        keys = ["a-b/1", "a/1", "a/10", "a/2", "a/b/c", "a0", "ab", "b"]
        for key in reversed(keys):
            blobs.put(key, key.encode())
        assert [info.key for info in blobs.list("")] == sorted(keys) == keys
        assert [info.size for info in blobs.list("a/")] == [3, 4, 3, 5]

    @pytest.mark.parametrize(
        ("prefix", "expected"),
        [
            ("logs/exp-1", ["logs/exp-1/0", "logs/exp-1/1", "logs/exp-12/0"]),
            ("logs/exp-1/", ["logs/exp-1/0", "logs/exp-1/1"]),
            ("logs/exp-1/1", ["logs/exp-1/1"]),
            ("lo", ["logs/exp-1/0", "logs/exp-1/1", "logs/exp-12/0"]),
            ("logs/exp-3", []),
            ("logs/exp-1/0/0", []),
            ("nothing/at/all/", []),
        ],
    )
    def test_a_prefix_is_of_the_key_and_not_of_folders(
        self, blobs: Blobs, prefix: str, expected: list[str]
    ) -> None:
        for key in ("logs/exp-1/0", "logs/exp-1/1", "logs/exp-12/0", "code/x"):
            blobs.put(key, b"")
        assert [info.key for info in blobs.list(prefix)] == expected

    def test_what_is_deleted_is_gone_and_may_be_deleted_again(self, blobs: Blobs) -> None:
        blobs.put("a/b/c", b"1")
        blobs.put("a/d", b"2")
        for _ in range(2):
            blobs.delete("a/b/c")
        assert [info.key for info in blobs.list("")] == ["a/d"]
        blobs.put("a/b", b"3")
        assert [info.key for info in blobs.list("")] == ["a/b", "a/d"]

    def test_what_was_written_whole_is_not_unfinished(self, blobs: Blobs, tmp_path: Path) -> None:
        (tmp_path / "source").write_bytes(LARGE)
        blobs.put_file("a/b", tmp_path / "source")
        blobs.put("a/c", b"1")
        assert blobs.unfinished("", older_than=0) == []

    @pytest.mark.parametrize("key", BAD_KEYS, ids=repr)
    def test_what_is_no_key_is_refused(self, blobs: Blobs, key: str, tmp_path: Path) -> None:
        for use in (blobs.get, blobs.info, blobs.delete, blobs.local_path):
            with pytest.raises(ValueError, match="not the key"):
                use(key)
        with pytest.raises(ValueError, match="not the key"):
            blobs.put(key, b"")
        with pytest.raises(ValueError, match="not the key"):
            blobs.put_new(key, b"")
        with pytest.raises(ValueError, match="not the key"):
            blobs.batch().put(key, b"", hashlib.sha256().hexdigest())
        with pytest.raises(ValueError, match="not the key"):
            blobs.read_into(key, memoryview(bytearray(1)))
        with pytest.raises(ValueError, match="not the key"):
            blobs.get_file(key, tmp_path / "copy")

    @pytest.mark.parametrize("prefix", ["/", "../", "a/../", "a//", "*", "a b"])
    def test_what_no_key_begins_with_is_refused(self, blobs: Blobs, prefix: str) -> None:
        with pytest.raises(ValueError, match="key"):
            list(blobs.list(prefix))

    def test_the_url_opens_the_same_blobs(self, blobs: Blobs) -> None:
        blobs.put("a", b"1")
        assert open_blobs(blobs.url).get("a") == b"1"

    def test_a_reader_sees_a_whole_blob_while_it_is_replaced(self, blobs: Blobs) -> None:
        blobs.put("a", b"0" * 100_000)
        done = threading.Event()

        def write() -> None:
            try:
                for digit in b"12345678" * 2:
                    blobs.put("a", bytes([digit]) * 100_000)
            finally:
                done.set()

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            while not done.is_set():
                found = blobs.get("a")
                assert (len(found), len(set(found))) == (100_000, 1)
            writing.result()

    def test_threads_put_and_delete_side_by_side(self, blobs: Blobs) -> None:
        def work(worker: int) -> None:
            for _ in range(10):
                blobs.put(f"shared/folder/{worker}", b"x")
                blobs.delete(f"shared/folder/{worker}")
            blobs.put(f"shared/{worker}", b"y")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert [info.key for info in blobs.list("")] == [f"shared/{n}" for n in range(4)]
