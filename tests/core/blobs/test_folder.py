"""Blobs in a folder keep the whole contract, and what only a disk can break."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.blobs.folder import FolderBlobs
from burst.core.errors import BurstError, ExitCode, StoreError, Unreachable, UsageError
from burst.core.testing.blob_contract import BlobContract
from burst.core.testing.faults import FaultyDisk, How, Plan, plans


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(tmp_path / "blobs")


class TestFolderBlobs(BlobContract):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> FolderBlobs:
        return FolderBlobs(tmp_path / "blobs")


def test_a_local_path_is_the_file_itself(blobs: FolderBlobs, tmp_path: Path) -> None:
    blobs.put("a/b", b"x")
    assert blobs.local_path("a/b") == tmp_path / "blobs" / "a" / "b"


def test_a_put_is_fsynced_before_its_name_and_its_name_after(
    blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs.put("a/first", b"")
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def noting_fsync(descriptor: int) -> None:
        kind = "folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file"
        done.append(f"fsync {kind}")
        fsync(descriptor)

    def noting_replace(self: Path, target: Path) -> Path:
        done.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(Path, "replace", noting_replace)
    blobs.put("a/second", b"x")
    assert done == ["fsync file", "rename", "fsync folder"]
    done.clear()
    blobs.put("b/c/third", b"x")
    assert done == ["fsync folder", "fsync folder", "fsync file", "rename", "fsync folder"]


def test_a_put_that_fails_at_any_step_leaves_the_old_blob_and_no_rubbish(tmp_path: Path) -> None:
    def put(plan: Plan, root: Path) -> None:
        FolderBlobs(root).put("a/b", b"old")
        FolderBlobs(root, FaultyDisk(plan)).put("a/b", b"new" * 100_000)

    tried = set()
    for number, plan in enumerate(plans(lambda plan: put(plan, tmp_path / "counted"), How.FAIL)):
        root = tmp_path / str(number)
        left = b"old"
        with pytest.raises(StoreError, match="cannot write") as caught:
            put(plan, root)
        assert "free space" in caught.value.mend
        if plan.wrong.startswith("fsync folder"):
            left = b"new" * 100_000
        assert FolderBlobs(root).get("a/b") == left
        assert {path.name for path in root.rglob("*") if path.is_file()} <= {"b", "lock"}
        tried.add(plan.wrong.split()[0])
    assert {"create", "write", "truncate", "fsync", "rename"} <= tried


def test_a_file_that_may_not_grow_is_an_error_in_words(blobs: FolderBlobs) -> None:
    with _largest_file(1000), pytest.raises(StoreError, match="cannot write") as caught:
        blobs.put("a/b", b"x" * 5000)
    assert caught.value.why == "File too large"
    assert list(blobs.list("")) == []
    blobs.put("a/b", b"x" * 5000)


def test_a_writer_killed_at_any_moment_leaves_whole_blobs(blobs: FolderBlobs) -> None:
    program = (
        "import sys; from burst.core.blobs import open_blobs\n"
        "blobs = open_blobs(sys.argv[1])\n"
        "for n in range(10**6): blobs.put('a/b', bytes([n % 256]) * 300_000); blobs.put('n', b'x')"
    )
    for _ in range(3):
        blobs.delete("n")
        writer = subprocess.Popen([sys.executable, "-c", program, blobs.url])
        deadline = time.monotonic() + 60
        while blobs.info("n") is None:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        data = blobs.get("a/b")
        assert (len(data), len(set(data))) == (300_000, 1)
        assert {info.key for info in blobs.list("")} == {"a/b", "n"}


def test_a_folder_that_cannot_be_made_is_unreachable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unreachable, match="cannot use"):
        FolderBlobs(tmp_path / "file" / "blobs")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
def test_blobs_of_another_user_are_refused_in_words() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        blobs = FolderBlobs(Path(folder) / "blobs")
        blobs.put("a/b", b"x")
        os.chmod(Path(folder) / "blobs" / "a" / "b", 0o600)
        with _as_nobody():
            for use in (lambda: blobs.put("a/c", b""), lambda: blobs.get("a/b")):
                with pytest.raises(Unreachable, match="cannot use") as caught:
                    use()
                assert caught.value.why == "Permission denied"
                assert "BURST_BLOBS" in caught.value.mend
                assert caught.value.exit_code is ExitCode.UNREACHABLE


def test_a_key_below_a_blob_is_an_error_in_words(blobs: FolderBlobs) -> None:
    blobs.put("a", b"x")
    with pytest.raises(BurstError, match="cannot use"):
        blobs.put("a/b", b"y")
    assert blobs.get("a") == b"x"


def test_opening_a_folder_imports_no_fsspec(tmp_path: Path) -> None:
    program = (
        "import sys; from burst.core.blobs import open_blobs\n"
        "open_blobs(sys.argv[1]).put('a', b'')\n"
        "print([m for m in ('fsspec', 's3fs', 'boto3', 'pydantic') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, f"file://{tmp_path}/x"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "url", ["", "file:", "file://", "file:///", "file://a", "s3://", "/tmp", "gs://b"]
)
def test_a_url_that_names_no_blobs_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="names no blobs"):
        open_blobs(url)


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def _as_nobody() -> Iterator[None]:
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
