"""A restore rehearsed without torch: every kind of damage is found, told, and written down."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burst.core.checkpoints.exchange.importing import import_model
from burst.core.checkpoints.format.manifest import Manifest
from burst.core.checkpoints.format.state_file import StateFile, TensorRef
from burst.core.checkpoints.format.structure import faults
from burst.core.checkpoints.format.tensorfile import read_header
from burst.core.checkpoints.rehearse import clear_mark, mark_lost, rehearse
from burst.core.checkpoints.tiers.places import Elsewhere
from burst.core.errors import Unreachable
from burst.core.model import Checkpoint, Copy
from burst.core.store.port import Put
from tests.core.checkpoints.made import Shelf, foreign, image


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "blobs")


def a_checkpoint(shelf: Shelf) -> Checkpoint:
    rows = np.arange(12, dtype="float32").reshape(4, 3)
    return shelf.sharded(rows, [((0, 0), (1, 3)), ((1, 0), (3, 3))])


def files_of(shelf: Shelf, record: Checkpoint) -> list[Path]:
    manifest = Manifest.decode(shelf.blobs.get(record.manifest))
    return [shelf.folder / entry.key for entry in manifest.files]


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "another byte": (flip, "holds other bytes than were written"),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:-1]), "another size"),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"x"), "another size"),
    "gone": (lambda path: path.unlink(), "is missing"),
    "empty": (lambda path: path.write_bytes(b""), "another size"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_each_file_that_is_damaged_is_named(shelf: Shelf, kind: str) -> None:
    record = a_checkpoint(shelf)
    harm, words = DAMAGE[kind]
    assert rehearse(shelf.blobs, record).good
    for path in files_of(shelf, record):
        good = path.read_bytes()
        harm(path)
        report = rehearse(shelf.blobs, record)
        (problem,) = report.problems
        assert problem.key == path.relative_to(shelf.folder).as_posix()
        assert words in problem.text
        assert report.lost
        path.write_bytes(good)
    assert rehearse(shelf.blobs, record).good


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_manifest_is_found(shelf: Shelf, kind: str) -> None:
    record = a_checkpoint(shelf)
    DAMAGE[kind][0](shelf.folder / record.manifest)
    report = rehearse(shelf.blobs, record)
    assert [problem.key for problem in report.problems] == [record.manifest]
    assert mark_lost(shelf.blobs, shelf.store, record, report, 5.0)
    assert shelf.store.get(Checkpoint, record.id).damaged


def test_progress_comes_to_all_the_bytes(shelf: Shelf) -> None:
    seen: list[tuple[int, int]] = []
    record = a_checkpoint(shelf)
    rehearse(shelf.blobs, record, lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (record.size, record.size)


# --- parts that do not fit ---------------------------------------------------------------------


def half(**changes: Any) -> tuple[StateFile, dict[str, Any]]:
    data = image({"w:0": np.zeros((2, 3), "float32"), "w:1": np.zeros((2, 3), "float32")})
    digest = hashlib.sha256(data).hexdigest()
    ref = TensorRef(
        name="w",
        dtype="float32",
        shape=(4, 3),
        pieces=((0, "w:0", 0), (0, "w:1", 6)),
    ).model_copy(update=changes)
    tree = {"w": {"$": ["tensor", 0, False]}}
    state = StateFile(tree=tree, files=(digest,), tensors=(ref,))
    return state, {digest: read_header(data)}


MISFITS: dict[str, tuple[dict[str, Any], str]] = {
    "no such dtype": ({"dtype": "float13"}, "there is no dtype"),
    "another dtype": ({"dtype": "bfloat16"}, "not bfloat16"),
    "a larger shape": ({"shape": (5, 3)}, "do not cover it"),
    "a smaller shape": ({"shape": (3, 3)}, "do not cover it"),
    "a gap": ({"pieces": ((0, "w:0", 0), (0, "w:1", 7))}, "do not cover it"),
    "an overlap": ({"pieces": ((0, "w:0", 0), (0, "w:1", 5))}, "do not cover it"),
    "a piece too few": ({"pieces": ((0, "w:0", 0),)}, "do not cover it"),
    "a piece twice": ({"pieces": ((0, "w:0", 0), (0, "w:0", 0))}, "do not cover it"),
    "a piece that is nowhere": ({"pieces": ((0, "w:0", 0), (0, "w:9", 6))}, "in none of"),
    "a file that is none": ({"pieces": ((0, "w:0", 0), (7, "w:1", 6))}, "in none of"),
    "strides of another rank": ({"stride": (3,)}, "its strides"),
    "a box outside": (
        {"pieces": ((0, "w:0", 0), (0, "w:1", 0)),
         "boxes": (((0, 0), (2, 3)), ((3, 0), (2, 3)))},
        "outside of it",
    ),
    "boxes that overlap": (
        {"pieces": ((0, "w:0", 0), (0, "w:1", 0)),
         "boxes": (((0, 0), (2, 3)), ((1, 0), (2, 3)))},
        "do not cover it",
    ),
    "a box too few": ({"boxes": (((0, 0), (2, 3)),)}, "in 1 boxes"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISFITS)
def test_parts_that_do_not_fit_are_found_though_every_hash_is_right(kind: str) -> None:
    changes, words = MISFITS[kind]
    assert list(faults(*half())) == []
    (fault,) = faults(*half(**changes))
    assert words in fault


def test_pieces_may_be_shards_in_any_order() -> None:
    boxes = (((2, 0), (2, 3)), ((0, 0), (2, 3)))
    state, headers = half(pieces=((0, "w:0", 0), (0, "w:1", 0)), boxes=boxes)
    assert list(faults(state, headers)) == []


def test_a_tree_that_points_beyond_its_tensors_is_found() -> None:
    state, headers = half()
    tree = {"w": [{"$": ["tensor", 4, False]}, {"$": ["long bytes", 0]}]}
    (fault,) = faults(state.model_copy(update={"tree": tree}), headers)
    assert fault == "its tree points to tensor 4 of 1"


def test_a_file_that_the_manifest_does_not_name_is_found(shelf: Shelf) -> None:
    record = shelf.checkpoint(half()[0], [])
    report = rehearse(shelf.blobs, record)
    assert "which the manifest does not" in report.problems[0].text
    assert mark_lost(shelf.blobs, shelf.store, record, report, 5.0) != []


# --- several places ----------------------------------------------------------------------------


def with_copies(shelf: Shelf, record: Checkpoint, other: Path) -> Checkpoint:
    for path in [*files_of(shelf, record), shelf.folder / record.manifest]:
        target = other / path.relative_to(shelf.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    copies = (Copy(url=shelf.blobs.url, at=1), Copy(url=f"file://{other}", at=2))
    shelf.store.commit(Put(record.model_copy(update={"copies": copies})))
    return shelf.store.get(Checkpoint, record.id)


def test_what_another_place_has_intact_is_a_problem_and_not_lost(
    shelf: Shelf, tmp_path: Path
) -> None:
    record = with_copies(shelf, a_checkpoint(shelf), tmp_path / "other")
    first, second = files_of(shelf, record)[:2]
    flip(first)
    report = rehearse(shelf.blobs, record)
    (problem,) = report.problems
    assert (problem.place, report.lost) == (shelf.blobs.url, False)
    assert mark_lost(shelf.blobs, shelf.store, record, report, 5.0) == []
    flip(tmp_path / "other" / second.relative_to(shelf.folder))
    assert not rehearse(shelf.blobs, record).lost  # each place has what the other lacks
    flip(tmp_path / "other" / first.relative_to(shelf.folder))
    report = rehearse(shelf.blobs, record)
    assert report.lost
    assert [each.id for each in mark_lost(shelf.blobs, shelf.store, record, report, 5.0)] == [
        record.id
    ]


def test_a_place_that_does_not_answer_says_nothing_about_the_checkpoint(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = with_copies(shelf, a_checkpoint(shelf), tmp_path / "other")
    flip(files_of(shelf, record)[0])

    def refuse(url: str) -> Any:
        raise Unreachable("no answer")

    monkeypatch.setattr("burst.core.checkpoints.rehearse.open_blobs", refuse)
    report = rehearse(shelf.blobs, record)
    assert not report.good
    assert not report.lost
    alone = record.model_copy(update={"copies": (), "url": "file:///nowhere"})
    with pytest.raises(Unreachable):
        rehearse(shelf.blobs, alone)


def test_what_lies_on_another_nodes_disk_alone_is_told_so(shelf: Shelf, tmp_path: Path) -> None:
    record = a_checkpoint(shelf)
    there = (Copy(url=f"file://{tmp_path / 'gone'}", at=1, node="node-1"),)
    with pytest.raises(Elsewhere, match="another node"):
        rehearse(shelf.blobs, record.model_copy(update={"copies": there}))
    assert not (tmp_path / "gone").exists()
    here = (Copy(url=shelf.blobs.url, at=1, node="node-1"),)  # and the command runs on that node
    assert rehearse(shelf.blobs, record.model_copy(update={"copies": here})).good


# --- what is written down ----------------------------------------------------------------------


def test_all_that_need_a_lost_file_are_marked_once_and_unmarked_when_it_is_back(
    shelf: Shelf,
) -> None:
    arrays = {"a": np.arange(2_000_000, dtype="float32"), "b": np.ones(3, "float32")}
    first = import_model(shelf.blobs, shelf.store, foreign(arrays), shelf.clock)
    shelf.clock.advance(5)
    arrays["b"] = np.zeros(3, "float32")
    second = import_model(shelf.blobs, shelf.store, foreign(arrays), shelf.clock)
    common = {path for path in files_of(shelf, first)} & {*files_of(shelf, second)}
    (path,) = common
    good = path.read_bytes()
    flip(path)
    report = rehearse(shelf.blobs, second)
    marked = mark_lost(shelf.blobs, shelf.store, second, report, 5.0)
    assert {each.id for each in marked} == {first.id, second.id}
    assert mark_lost(shelf.blobs, shelf.store, second, report, 6.0) == []
    os.replace(path, path.with_suffix(".bad"))
    path.write_bytes(good)
    assert clear_mark(shelf.store, second, 7.0)
    assert not clear_mark(shelf.store, second, 8.0)
    assert [shelf.store.get(Checkpoint, each.id).damaged for each in (second,)] == [""]
    names = [event.name for event in shelf.store.events().events]
    assert names.count("checkpoint.damaged") == 2
    assert names[-1] == "checkpoint.intact"


def test_a_fault_of_the_reader_marks_nothing(shelf: Shelf) -> None:
    record = a_checkpoint(shelf)
    path = files_of(shelf, record)[1]
    good = path.read_bytes()
    flip(path)
    report = rehearse(shelf.blobs, record)
    path.write_bytes(good)  # it was the wire
    assert mark_lost(shelf.blobs, shelf.store, record, report, 5.0) == []
    assert shelf.store.get(Checkpoint, record.id).damaged == ""
