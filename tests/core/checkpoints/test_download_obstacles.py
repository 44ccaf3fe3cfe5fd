"""What is in the way of a download, and is not removed: it is named, before a byte is fetched."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from burst.core.checkpoints.exchange import download as making
from burst.core.checkpoints.exchange.download import download
from burst.core.checkpoints.exchange.importing import import_model
from burst.core.checkpoints.exchange.target import WORK
from burst.core.errors import BurstError, UsageError
from burst.core.model import Checkpoint
from tests.core.checkpoints.made import Shelf, foreign


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "blobs")


@pytest.fixture
def model(shelf: Shelf) -> Checkpoint:
    arrays = {"w": np.arange(9, dtype="float32")}
    return import_model(shelf.blobs, shelf.store, foreign(arrays), shelf.clock)


def dangling(base: Path) -> tuple[Path, Path]:
    (base / "out").symlink_to("nowhere")
    return base / "out", base / "out"


def a_link_to_itself(base: Path) -> tuple[Path, Path]:
    (base / "out").symlink_to("out")
    return base / "out", base / "out"


def a_file(base: Path) -> tuple[Path, Path]:
    (base / "out").write_text("mine")
    return base / "out", base / "out"


def below_a_file(base: Path) -> tuple[Path, Path]:
    (base / "out").write_text("mine")
    return base / "out" / "deep" / "er", base / "out"


def a_file_for_the_work(base: Path) -> tuple[Path, Path]:
    (base / "out").mkdir()
    (base / "out" / WORK).write_text("mine")
    return base / "out", base / "out" / WORK


def a_folder_named(name: str) -> Callable[[Path], tuple[Path, Path]]:
    def made(base: Path) -> tuple[Path, Path]:
        (base / "out" / name / "mine").mkdir(parents=True)
        return base / "out", base / "out" / name

    return made


FOLDERS = (
    "model.safetensors",
    "model-00001-of-00002.safetensors",
    "state.json",
    "manifest.json",
)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "obstacle",
    [
        dangling,
        a_link_to_itself,
        a_file,
        below_a_file,
        a_file_for_the_work,
        *map(a_folder_named, FOLDERS),
    ],
)
def test_it_is_named_and_left_there_and_no_weights_are_fetched(
    shelf: Shelf,
    model: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    obstacle: Callable[[Path], tuple[Path, Path]],
    force: bool,
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    folder, in_the_way = obstacle(base)
    before = sorted(base.rglob("*"))
    monkeypatch.setattr(making, "_make", lambda *given: pytest.fail("it was fetched"))
    with pytest.raises(UsageError) as refused:
        download(shelf.blobs, model, folder, force=force)
    assert refused.value.what == f"{in_the_way} is in the way"
    assert "move it away" in refused.value.mend
    assert "space" not in refused.value.mend
    assert sorted(base.rglob("*")) == before


def test_a_link_to_a_folder_is_a_folder(shelf: Shelf, model: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "out").symlink_to("large")
    download(shelf.blobs, model, tmp_path / "out")
    assert (tmp_path / "large" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("number", "mend"),
    [
        (errno.ENOSPC, "free space"),
        (errno.EDQUOT, "free space"),
        (errno.EACCES, "see that it can be written"),
        (errno.EROFS, "see that it can be written"),
        (errno.EISDIR, "move away what is there"),
    ],
)
def test_what_the_disk_says_decides_what_mends_it(
    shelf: Shelf,
    model: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    mend: str,
) -> None:
    def fails(*given: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(making, "_make", fails)
    with pytest.raises(BurstError) as told:
        download(shelf.blobs, model, tmp_path / "out")
    assert told.value.why == os.strerror(number)
    assert told.value.mend.startswith(mend)
