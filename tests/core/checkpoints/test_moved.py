"""A folder of state that is moved or copied: its checkpoints are its own, and no other's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from burst.core.blobs import open_blobs
from burst.core.checkpoints.moved import settle_in
from burst.core.model import Checkpoint, Copy
from burst.core.state_mark import STATE_MARK
from burst.core.store import open_store
from burst.core.store.port import Put
from burst.core.testing import examples
from burst.core.testing.examples import EXPERIMENT, TRIAL
from burst.core.workspace import open_workspace


def checkpoint(home: Path, *more: str) -> Checkpoint:
    urls = [f"file://{home}/blobs", *more]
    copies = tuple(Copy(url=url, at=0.0) for url in urls)
    made = next(r for r in examples.records() if isinstance(r, Checkpoint))
    return made.model_copy(update={"trial": TRIAL, "url": urls[0], "copies": copies})


def begin(home: Path, *more: str) -> None:
    ws = open_workspace({"BURST_HOME": str(home)})
    ws.store.commit(
        Put(examples.experiment(id=EXPERIMENT)),
        Put(examples.trial()),
        Put(checkpoint(home, *more)),
    )
    ws.store.close()


def urls(home: Path) -> list[str]:
    ws = open_workspace({"BURST_HOME": str(home)})
    (record,) = ws.store.children(Checkpoint, TRIAL)
    ws.store.close()
    assert record.url == record.copies[0].url
    return [copy.url for copy in record.copies]


def test_a_copied_home_names_its_own_places_and_the_original_keeps_its(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    begin(first, f"file://{first}", "s3://bucket/x", f"file://{first}-like")
    shutil.copytree(first, second)
    outside = ["s3://bucket/x", f"file://{first}-like"]
    for home in (second, first, second):
        assert urls(home) == [f"file://{home}/blobs", f"file://{home}", *outside]


def test_a_home_that_is_moved_and_moved_back_follows(tmp_path: Path) -> None:
    begin(tmp_path / "a")
    for before, now in ("ab", "ba", "ac"):
        (tmp_path / before).rename(tmp_path / now)
        assert urls(tmp_path / now) == [f"file://{tmp_path / now}/blobs"]


def test_two_paths_to_one_folder_change_nothing(tmp_path: Path) -> None:
    home, link = tmp_path / "home", tmp_path / "link"
    begin(home)
    link.symlink_to(home)
    assert urls(link) == urls(home) == [f"file://{home}/blobs"]
    home.rename(tmp_path / "moved")
    assert urls(tmp_path / "moved") == [f"file://{tmp_path / 'moved'}/blobs"]


def test_where_nothing_has_changed_no_record_is_read(tmp_path: Path) -> None:
    begin(tmp_path)
    store = open_store("memory:")
    assert settle_in(tmp_path, store) == 0
    (tmp_path / STATE_MARK).write_text("")  # as an older burst has left it
    assert settle_in(tmp_path, store) == 0
    assert settle_in(tmp_path, store) == 0


def test_a_script_in_a_copy_of_its_folder_leaves_the_original_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import burst.harness

    def run(folder: Path) -> int:
        with burst.harness.init(folder=folder, keep=2) as context:
            saved = context.checkpoint.restore()
            begun = int(saved.state["n"]) if saved else 0
            for batches in range(begun + 1, begun + 6):
                context.checkpoint.save({"n": batches}, batches=batches)
        return begun

    def there(folder: Path) -> list[str]:
        return sorted(info.key for info in open_blobs(f"file://{folder}").list("checkpoints/"))

    original, copy = tmp_path / "original", tmp_path / "copy"
    assert run(original) == 0
    kept = there(original)
    shutil.copytree(original, copy)
    assert run(copy) == 5
    assert there(original) == kept
    assert run(original) == 5
