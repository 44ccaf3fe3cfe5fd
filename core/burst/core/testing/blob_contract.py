"""What every kind of blobs must keep. An adapter's tests inherit this and provide `blobs`."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.errors import NotFound

LARGE = bytes(range(256)) * 4096 * 3
"""3 MiB in which every part differs from its neighbours."""

BAD_KEYS = (
    "", "/", "/etc/passwd", "a//b", "a/", "../a", "a/../b", "a/..", ".", "a/./b", "a\\b", "a b",
    "a\0b", "a\nb", "C:", "~/a/*", "naïve", "a?versionId=1", "a#b", ".burst-1", "x" * 201,
    "/".join(["x" * 100] * 10),
)  # fmt: skip


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

    @pytest.mark.parametrize("key", BAD_KEYS, ids=repr)
    def test_what_is_no_key_is_refused(self, blobs: Blobs, key: str, tmp_path: Path) -> None:
        for use in (blobs.get, blobs.info, blobs.delete, blobs.local_path):
            with pytest.raises(ValueError, match="not the key"):
                use(key)
        with pytest.raises(ValueError, match="not the key"):
            blobs.put(key, b"")
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
