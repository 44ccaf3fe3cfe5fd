"""Unpacking an archive that somebody else has made."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from burst.core.code.unpack import unpack_code
from burst.core.errors import BurstError, StoreError

Member = tuple[str, bytes, str]  # name, type, content or target


def archive(*members: Member) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(content)
            else:
                info.linkname = content
            tar.addfile(info, io.BytesIO(content.encode()) if kind == tarfile.REGTYPE else None)
    return packed.getvalue()


def everything(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where to unpack; beside it lies what an attack would reach for."""
    (tmp_path / "precious").write_text("untouched")
    (tmp_path / "secrets").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize(
    "members",
    [
        [("../precious", tarfile.REGTYPE, "x")],
        [("a/../../precious", tarfile.REGTYPE, "x")],
        [("/tmp/precious", tarfile.REGTYPE, "x")],
        [("..", tarfile.DIRTYPE, "")],
        [("link", tarfile.SYMTYPE, "../precious")],
        [("link", tarfile.SYMTYPE, "/etc/passwd")],
        [("a/link", tarfile.SYMTYPE, "../../precious")],
        [("a/b/up", tarfile.SYMTYPE, "../.."), ("sly", tarfile.SYMTYPE, "a/b/up/..")],
        [("hard", tarfile.LNKTYPE, "../precious")],
        [("hard", tarfile.LNKTYPE, "/etc/passwd")],
        [("device", tarfile.CHRTYPE, "")],
        [("disk", tarfile.BLKTYPE, "")],
        [("pipe", tarfile.FIFOTYPE, "")],
        [(".", tarfile.REGTYPE, "x")],
        [("", tarfile.REGTYPE, "x")],
        [(".", tarfile.SYMTYPE, "a")],
    ],
    ids=str,
)
def test_what_leads_out_or_is_no_plain_file_is_refused(out: Path, members: list[Member]) -> None:
    with pytest.raises(BurstError, match="the code archive"):
        unpack_code(archive(*members), out)
    assert (out.parent / "precious").read_text() == "untouched"
    assert everything(out.parent) <= {"precious", "secrets", "out", "out/a", "out/a/b"}


@pytest.mark.parametrize(
    "members",
    [
        [("d", tarfile.SYMTYPE, "a"), ("d/x", tarfile.REGTYPE, "x")],
        [("a", tarfile.DIRTYPE, ""), ("a", tarfile.SYMTYPE, "b"), ("a/x", tarfile.REGTYPE, "x")],
        [("x", tarfile.REGTYPE, "1"), ("x", tarfile.REGTYPE, "2")],
    ],
    ids=str,
)
def test_odd_archives_stay_inside(out: Path, members: list[Member]) -> None:
    with contextlib.suppress(BurstError):
        unpack_code(archive(*members), out)
    for path in out.rglob("*"):
        assert path.resolve().is_relative_to(out.resolve())


def test_links_that_lie_there_already_are_not_followed(out: Path) -> None:
    out.mkdir()
    (out / "train.py").symlink_to(out.parent / "precious")
    (out / "lib").symlink_to(out.parent / "secrets", target_is_directory=True)
    unpack_code(
        archive(("train.py", tarfile.REGTYPE, "x"), ("lib/a.py", tarfile.REGTYPE, "y")), out
    )
    assert (out.parent / "precious").read_text() == "untouched"
    assert everything(out.parent / "secrets") == set()
    assert (out / "lib" / "a.py").read_text() == "y"


def test_a_small_archive_cannot_fill_the_disk(out: Path) -> None:
    bomb = archive(("zeros", tarfile.REGTYPE, "\0" * 3_000_000))
    assert len(bomb) < 10_000
    with pytest.raises(BurstError, match="too large") as caught:
        unpack_code(bomb, out, limit=1_000_000)
    assert "1000000 bytes" in caught.value.why
    assert (out / "zeros").stat().st_size <= 1_000_000


def test_headers_count_against_the_limit_too(out: Path) -> None:
    many = archive(*((f"{n}", tarfile.DIRTYPE, "") for n in range(3000)))
    with pytest.raises(BurstError, match="too large"):
        unpack_code(many, out, limit=1_000_000)


@pytest.mark.parametrize("cut", [0, 1, 9, 10, 11, 50, -8, -1])
def test_a_damaged_archive_is_refused(out: Path, cut: int) -> None:
    whole = archive(("train.py", tarfile.REGTYPE, os.urandom(40).hex()))
    with pytest.raises(BurstError, match="is damaged"):
        unpack_code(whole[:cut], out)


def test_what_is_no_archive_is_refused(out: Path) -> None:
    for data in (b"hello", gzip.compress(b"hello" * 1000), gzip.compress(b"")):
        with pytest.raises(BurstError, match="is damaged"):
            unpack_code(data, out)


def test_modes_are_set_here_and_not_by_the_archive(out: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo("suid")
        info.mode, info.uid = 0o6777, 12345
        tar.addfile(info)
    unpack_code(packed.getvalue(), out)
    found = (out / "suid").stat()
    assert found.st_mode & 0o7777 & ~0o755 == 0
    assert found.st_uid == os.geteuid()


def test_an_archive_may_lie_in_a_file(out: Path, tmp_path: Path) -> None:
    path = tmp_path / "code.tar.gz"
    path.write_bytes(archive(("train.py", tarfile.REGTYPE, "x")))
    unpack_code(path, out)
    assert (out / "train.py").read_text() == "x"


def test_a_folder_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot unpack"):
        unpack_code(archive(("a", tarfile.REGTYPE, "x")), tmp_path / "file")
