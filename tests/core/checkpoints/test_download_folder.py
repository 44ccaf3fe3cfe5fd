"""The folder of a download: what is the download's own, and what it leaves alone."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from burst.core.checkpoints.exchange import download as making
from burst.core.checkpoints.exchange.download import download
from burst.core.checkpoints.exchange.importing import import_model
from burst.core.checkpoints.exchange.target import WORK
from burst.core.errors import BurstError, UsageError
from burst.core.model import Checkpoint
from tests.core.checkpoints.made import Shelf, contents, foreign

ONE, THREE, TWO = 5000, 900, 1300
"""Bytes of a shard, by how many of them the model has."""


class Killed(BaseException):
    """The process is gone: nothing after this has any effect."""


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "blobs")


@pytest.fixture
def model(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    monkeypatch.setattr(making, "_NOTED_BYTES", 0)
    return imported(shelf, 0)


def imported(shelf: Shelf, first: int, **texts: bytes) -> Checkpoint:
    shelf.clock.advance(60)
    arrays = {f"layer.{n}": np.full(100, first + n, "float32") for n in range(5)}
    named = texts or {"config": b'{"model_type": "gpt2"}', "tokenizer": b"t" * 3000}
    return import_model(shelf.blobs, shelf.store, foreign(arrays, **named), shelf.clock)


def made(shelf: Shelf, record: Checkpoint, folder: Path, shard_bytes: int) -> dict[str, bytes]:
    """What a download of it into an empty folder makes."""
    download(shelf.blobs, record, folder, shard_bytes=shard_bytes)
    return contents(folder)


@pytest.mark.parametrize(
    "name",
    ["config.json", "model.safetensors", "state.json", "manifest.json", "tokenizer.json"],
)
def test_a_file_of_others_is_not_overwritten_unless_asked_for(
    shelf: Shelf, model: Checkpoint, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text('{"mine": 1}')
    (out / "README.md").write_text("mine too")
    with pytest.raises(UsageError, match="not this download's") as refused:
        download(shelf.blobs, model, out)
    assert refused.value.why == name
    assert "--force" in refused.value.mend
    assert {p.name: p.read_text() for p in out.iterdir()} == {
        name: '{"mine": 1}',
        "README.md": "mine too",
    }
    download(shelf.blobs, model, out, force=True)
    expected = made(shelf, model, tmp_path / "clean", 10**9)
    assert contents(out) == {**expected, "README.md": b"mine too"}


@pytest.mark.parametrize(
    "name",
    ["model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"],
)
def test_weights_that_a_reader_would_take_for_the_checkpoints_are_in_the_way(
    shelf: Shelf, model: Checkpoint, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    save_file({"w": np.ones(3)}, out / name)
    with pytest.raises(UsageError, match="not this download's"):
        download(shelf.blobs, model, out, shard_bytes=THREE)
    download(shelf.blobs, model, out, shard_bytes=THREE, force=True)
    assert contents(out) == made(shelf, model, tmp_path / "clean", THREE)


def test_what_was_changed_since_it_was_downloaded_is_not_overwritten(
    shelf: Shelf, model: Checkpoint, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    download(shelf.blobs, model, out)
    (out / "config.json").write_text('{"model_type": "mine"}')
    save_file({"tuned": np.ones(3)}, out / "model.safetensors")
    with pytest.raises(UsageError) as refused:
        download(shelf.blobs, model, out)
    assert refused.value.why == "model.safetensors, config.json"
    assert set(load_file(out / "model.safetensors")) == {"tuned"}


def test_a_file_that_comes_while_it_downloads_is_not_overwritten(
    shelf: Shelf, model: Checkpoint, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def meanwhile(done: int, total: int) -> None:
        (out / "config.json").write_text("mine")

    with pytest.raises(UsageError, match="not this download's"):
        download(shelf.blobs, model, out, meanwhile)
    assert (out / "config.json").read_text() == "mine"
    assert not (out / "manifest.json").exists()


def test_a_file_of_others_with_the_same_bytes_is_in_nobodys_way(
    shelf: Shelf, model: Checkpoint, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "config.json").write_text('{"model_type": "gpt2"}')
    download(shelf.blobs, model, out)
    download(shelf.blobs, model, out, shard_bytes=THREE)
    assert contents(out) == made(shelf, model, tmp_path / "clean", THREE)


def test_force_leaves_nothing_of_another_checkpoint(
    shelf: Shelf, model: Checkpoint, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    other = imported(shelf, 10, config=b"{}", merges=b"m")
    download(shelf.blobs, other, out, shard_bytes=THREE)
    with pytest.raises(UsageError, match="another checkpoint"):
        download(shelf.blobs, model, out)
    download(shelf.blobs, model, out, force=True)
    assert contents(out) == made(shelf, model, tmp_path / "clean", ONE)


def test_a_folder_that_holds_everything_is_not_written_at_all(
    shelf: Shelf, model: Checkpoint, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    download(shelf.blobs, model, out)
    before = {path: path.stat() for path in out.rglob("*") if path.is_file()}
    seen: list[tuple[int, int]] = []
    download(shelf.blobs, model, out, lambda *pair: seen.append(pair))
    assert {path: path.stat() for path in out.rglob("*") if path.is_file()} == before
    assert seen[-1][0] == seen[-1][1] > 0


def test_two_downloads_into_one_folder_exclude_each_other(
    shelf: Shelf, model: Checkpoint, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (out / WORK).mkdir(parents=True)
    with (out / WORK / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BurstError, match="another download writes"):
            download(shelf.blobs, model, out)
    download(shelf.blobs, model, out)
    assert contents(out) == made(shelf, model, tmp_path / "clean", ONE)


@pytest.mark.parametrize("noted", [b"", b"[]", b'{"files": {"config.json": 3}}', b"\xff\xfe"])
def test_where_the_notes_are_lost_no_file_is_taken_for_the_downloads_own(
    shelf: Shelf, model: Checkpoint, tmp_path: Path, noted: bytes
) -> None:
    out = tmp_path / "out"
    download(shelf.blobs, model, out)
    (out / WORK / "files.json").write_bytes(noted)
    with pytest.raises(UsageError, match="not this download's"):
        download(shelf.blobs, model, out)
    download(shelf.blobs, model, out, force=True)
    assert contents(out) == made(shelf, model, tmp_path / "clean", ONE)


@pytest.mark.parametrize("size", [0, -1])
def test_shards_hold_at_least_a_byte(
    shelf: Shelf, model: Checkpoint, tmp_path: Path, size: int
) -> None:
    with pytest.raises(UsageError, match="holds no tensor"):
        download(shelf.blobs, model, tmp_path / "out", shard_bytes=size)
    assert not (tmp_path / "out").exists()


# --- killed at every change of the folder ------------------------------------------------------


@contextmanager
def killed(at: int, *, acted: bool) -> Iterator[list[str]]:
    """The process dies at its `at`-th change of files, before it or, if it `acted`, after it."""
    changes: list[str] = []

    def dying(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def change(*args: Any, **named: Any) -> Any:
            if len(changes) > at:
                raise Killed(name)
            changes.append(name)
            if len(changes) > at and not acted:
                raise Killed(name)
            try:
                return act(*args, **named)
            finally:
                if len(changes) > at:
                    raise Killed(name)

        return change

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (
            (os, "pwrite"), (os, "fsync"), (Path, "replace"), (Path, "unlink"), (Path, "mkdir"),
            (Path, "rmdir"),
        ):  # fmt: skip
            patch.setattr(owner, name, dying(name, getattr(owner, name)))
        yield changes


def changes_of(shelf: Shelf, model: Checkpoint, folder: Path, shard_bytes: int) -> int:
    with killed(10**6, acted=True) as changes:
        download(shelf.blobs, model, folder, shard_bytes=shard_bytes)
    assert {"pwrite", "fsync", "replace", "unlink", "mkdir"} <= set(changes)
    return len(changes)


@pytest.mark.parametrize(
    ("before", "then"), [(None, ONE), (None, THREE), (ONE, THREE), (THREE, TWO), (THREE, ONE)]
)
@pytest.mark.parametrize("acted", [False, True])
def test_whatever_kills_a_download_the_next_one_leaves_exactly_one_model(
    shelf: Shelf, model: Checkpoint, tmp_path: Path, before: int | None, then: int, acted: bool
) -> None:
    expected = {size: made(shelf, model, tmp_path / f"{size}", size) for size in (ONE, THREE, TWO)}

    def begun(name: str) -> Path:
        if before:
            download(shelf.blobs, model, tmp_path / name, shard_bytes=before)
        return tmp_path / name

    for at in range(changes_of(shelf, model, begun("count"), then)):
        folder = begun(f"{at}")
        with killed(at, acted=acted), pytest.raises(Killed):
            download(shelf.blobs, model, folder, shard_bytes=then)
        if (folder / "manifest.json").exists():
            found = set(load_all(folder))
            assert found == {f"layer.{n}" for n in range(5)}
        again = (then, TWO)[at % 2]
        download(shelf.blobs, model, folder, shard_bytes=again)
        assert contents(folder) == expected[again]


def load_all(folder: Path) -> dict[str, Any]:
    """The model as from_pretrained finds it."""
    single = folder / "model.safetensors"
    if single.exists():
        return dict(load_file(single))
    index = json.loads((folder / "model.safetensors.index.json").read_bytes())
    found: dict[str, Any] = {}
    for name in set(index["weight_map"].values()):
        found |= load_file(folder / name)
    return found
