"""Writers and removers of one folder, each between any two steps of another."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from burst.core.blobs.disk import Disk
from burst.core.blobs.folder import FolderBlobs
from burst.core.errors import BurstError, Taken
from burst.core.testing.faults import FaultyDisk, Plan

DATA = b"x" * 5000


class Interrupted(Disk):
    """A disk on which something else happens just before the step number `at`."""

    def __init__(self, at: int, other: Callable[[], object]) -> None:
        self._left = at
        self._other = other

    def _pass(self) -> None:
        self._left -= 1
        if self._left == -1:
            self._other()


def _interrupting(name: str) -> Callable[..., object]:
    def step(self: Interrupted, *args: object, **kwargs: object) -> object:
        self._pass()
        return getattr(Disk, name)(self, *args, **kwargs)

    return step


STEPS = (
    "make_folder", "create", "write", "truncate", "sync", "close", "rename", "rename_new",
    "sync_folder", "remove", "remove_folder", "lock",
)  # fmt: skip
for _name in STEPS:
    setattr(Interrupted, _name, _interrupting(_name))


def put(blobs: FolderBlobs, key: str) -> None:
    blobs.put(key, DATA)


def put_new(blobs: FolderBlobs, key: str) -> None:
    blobs.put_new(key, DATA)


def batch(blobs: FolderBlobs, key: str) -> None:
    several = blobs.batch()
    several.put(key, DATA, hashlib.sha256(DATA).hexdigest())
    several.finish()


def delete(blobs: FolderBlobs, key: str) -> None:
    blobs.put(key, DATA)
    blobs.delete(key)


ACTS: dict[str, Callable[[FolderBlobs, str], None]] = {
    "put": put,
    "put_new": put_new,
    "batch": batch,
    "put and delete": delete,
}


@pytest.mark.parametrize("inner", ACTS)
@pytest.mark.parametrize("outer", ACTS)
def test_one_comes_between_any_two_steps_of_another(
    tmp_path: Path, outer: str, inner: str
) -> None:
    counting = Plan()
    ACTS[outer](FolderBlobs(tmp_path / "counted", FaultyDisk(counting)), "a/b/outer")
    for at in range(len(counting.steps) + 10):
        root = tmp_path / str(at)
        other = FolderBlobs(root)
        disk = Interrupted(at, partial(ACTS[inner], other, "a/b/inner"))
        blobs = FolderBlobs(root, disk)
        ACTS[outer](blobs, "a/b/outer")
        happened = disk._left < 0
        expected = [
            f"a/b/{who}"
            for who, act in (("inner", inner if happened else ""), ("outer", outer))
            if act in ("put", "put_new", "batch")
        ]
        assert [info.key for info in blobs.list("")] == expected
        assert all(blobs.get(key) == DATA for key in expected)
        assert (root / "a").exists() == bool(expected), "empty folders go"


@pytest.mark.parametrize("folder", ["root/a", "root/a/b"])
def test_a_folder_found_to_be_there_may_be_gone_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Another made it before us, and removed it, empty, as soon as the system had told us so."""
    mkdir = os.mkdir
    gone: list[os.PathLike[str]] = []

    def made_and_removed(path: os.PathLike[str], mode: int = 0o777) -> None:
        if Path(path) == tmp_path / folder and not gone:
            gone.append(path)
            raise FileExistsError(errno.EEXIST, "File exists", os.fspath(path))
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", made_and_removed)
    blobs = FolderBlobs(tmp_path / "root")
    blobs.put("a/b/c", DATA)
    assert gone
    assert blobs.get("a/b/c") == DATA


def test_a_file_where_a_folder_must_be_is_told(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path)
    blobs.put("a", DATA)
    with pytest.raises(BurstError, match="a/b"):
        blobs.put("a/b", DATA)
    assert blobs.get("a") == DATA


def test_two_remove_the_last_two_blobs_of_a_folder_in_any_order(tmp_path: Path) -> None:
    for at in range(6):
        root = tmp_path / str(at)
        other = FolderBlobs(root)
        for key in ("a/b/1", "a/b/2"):
            other.put(key, DATA)
        disk = Interrupted(at, partial(other.delete, "a/b/2"))
        FolderBlobs(root, disk).delete("a/b/1")
        assert [info.key for info in other.list("")] == ([] if disk._left < 0 else ["a/b/2"])
        assert (root / "a").exists() == (disk._left >= 0)


def test_of_two_who_put_one_new_blob_the_one_that_comes_between_wins(tmp_path: Path) -> None:
    counting = Plan()
    put_new(FolderBlobs(tmp_path / "counted", FaultyDisk(counting)), "a/b")
    told = 0
    for at in range(len(counting.steps)):
        root = tmp_path / str(at)
        other = FolderBlobs(root)
        outcomes: list[bool] = []

        def come_between(other: FolderBlobs = other, outcomes: list[bool] = outcomes) -> None:
            outcomes.append(_wins(other, b"theirs"))

        won = _wins(FolderBlobs(root, Interrupted(at, come_between)), b"ours")
        assert [won, *outcomes].count(True) == 1
        assert other.get("a/b") == (b"ours" if won else b"theirs")
        told += not won
    assert 3 < told < len(counting.steps)


def _wins(blobs: FolderBlobs, data: bytes) -> bool:
    try:
        blobs.put_new("a/b", data)
    except Taken:
        return False
    return True
