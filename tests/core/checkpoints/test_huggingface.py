"""What is handed out has the names, shards and files that the Hugging Face libraries read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch

from burst.core.checkpoints.exchange import huggingface
from burst.core.checkpoints.exchange.download import download
from burst.core.checkpoints.exchange.importing import import_model
from burst.core.checkpoints.format.boxes import Box
from burst.core.checkpoints.format.manifest import Manifest
from burst.core.checkpoints.format.state_file import StateFile, TensorRef, state_dicts
from burst.core.checkpoints.rehearse import rehearse
from burst.core.model import Checkpoint, Copy
from burst.core.store.port import Put
from burst.harness.rehearse import rehearse as restored
from tests.core.checkpoints.made import Shelf, contents, foreign

STORED = Path(__file__).parents[2] / "data" / "checkpoints" / "format-1"


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "blobs")


def test_a_large_model_comes_in_shards_with_an_index(shelf: Shelf, tmp_path: Path) -> None:
    arrays = {f"layer.{n}": np.full(100, n, "float32") for n in range(5)}
    record = import_model(shelf.blobs, shelf.store, foreign(arrays), shelf.clock)
    download(shelf.blobs, record, tmp_path / "out", shard_bytes=900)
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_bytes())
    assert index["metadata"] == {"total_size": 2000}
    assert index["weight_map"] == {
        f"layer.{n}": f"model-0000{n // 2 + 1}-of-00003.safetensors" for n in range(5)
    }
    found: dict[str, Any] = {}
    for name in sorted(set(index["weight_map"].values())):
        found |= load_file(tmp_path / "out" / name)
    assert {name: array.tobytes() for name, array in found.items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }


def test_a_tensor_larger_than_a_shard_has_one_of_its_own(shelf: Shelf, tmp_path: Path) -> None:
    arrays = {
        "a": np.ones(10, "float32"),
        "b": np.ones(999, "float32"),
        "c": np.ones(1, "float32"),
    }
    record = import_model(shelf.blobs, shelf.store, foreign(arrays), shelf.clock)
    download(shelf.blobs, record, tmp_path / "out", shard_bytes=100)
    assert len(list((tmp_path / "out").glob("model-*-of-00003.safetensors"))) == 3


def test_another_size_of_shards_leaves_nothing_of_the_one_before(
    shelf: Shelf, tmp_path: Path
) -> None:
    arrays = {f"layer.{n}": np.full(100, n, "float32") for n in range(5)}
    record = import_model(shelf.blobs, shelf.store, foreign(arrays), shelf.clock)
    out = tmp_path / "out"
    download(shelf.blobs, record, out, shard_bytes=900)
    (out / "mine.safetensors").touch()
    paths = download(shelf.blobs, record, out)
    assert set(contents(out)) == {path.name for path in paths} | {"mine.safetensors"}
    assert len(download(shelf.blobs, record, out, shard_bytes=900)) == 6
    assert not (out / "model.safetensors").exists()


@st.composite
def shards(draw: Any) -> tuple[tuple[int, ...], list[Box]]:
    """A shape and boxes that tile it: cut along any dimensions, in any order."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    boxes: list[Box] = [((0,) * len(shape), shape)]
    for dim, end in enumerate(shape):
        cut = draw(st.integers(0, end))
        boxes = [half for box in boxes for half in _cut(box, dim, cut)]
    return shape, draw(st.permutations(boxes))


def _cut(box: Box, dim: int, cut: int) -> list[Box]:
    offsets, sizes = box
    first = (*sizes[:dim], cut, *sizes[dim + 1 :])
    rest = (*sizes[:dim], sizes[dim] - cut, *sizes[dim + 1 :])
    moved = (*offsets[:dim], offsets[dim] + cut, *offsets[dim + 1 :])
    return [each for each in ((offsets, first), (moved, rest)) if all(each[1])]


@settings(max_examples=25)
@given(shards())
def test_shards_are_assembled_whatever_way_they_were_cut(
    tmp_path_factory: pytest.TempPathFactory, cut: tuple[tuple[int, ...], list[Box]]
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    shelf = Shelf(folder / "blobs")
    array = np.random.default_rng(0).integers(0, 1000, cut[0]).astype("int32")
    record = shelf.sharded(array, cut[1])
    download(shelf.blobs, record, folder / "out")
    assert np.array_equal(load_file(folder / "out" / "model.safetensors")["w"], array)


def test_the_files_beside_an_imported_model_come_back(shelf: Shelf, tmp_path: Path) -> None:
    texts = {"config": b'{"model_type": "x"}', "tokenizer": b"t" * 5000}
    model = foreign({"w": np.ones(3, "float32")}, **texts)
    record = import_model(shelf.blobs, shelf.store, model, shelf.clock)
    download(shelf.blobs, record, tmp_path / "out")
    for name, data in texts.items():
        assert (tmp_path / "out" / f"{name}.json").read_bytes() == data


def test_a_checkpoint_of_format_1_is_rehearsed_and_handed_out(
    shelf: Shelf, tmp_path: Path
) -> None:
    shutil.copytree(STORED, shelf.folder)
    (key,) = (b.key for b in shelf.blobs.list("checkpoints/") if b.key.endswith("manifest.json"))
    manifest = Manifest.decode(shelf.blobs.get(key))
    record = Checkpoint(
        id=manifest.id, trial=manifest.trial, experiment=manifest.experiment, attempt=1, batches=3,
        created=manifest.created, url=shelf.blobs.url, manifest=key, size=manifest.size,
    )  # fmt: skip
    assert rehearse(shelf.blobs, record).good
    shelf.store.commit(Put(record))
    assert restored(shelf.store, record.id).good
    download(shelf.blobs, record, tmp_path / "out")
    found = load_torch(tmp_path / "out" / "model.safetensors")
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        "fc.weight": (3, 4),
        "fc.bias": (3,),
    }


def test_a_copy_that_is_damaged_is_passed_by(shelf: Shelf, tmp_path: Path) -> None:
    rows = np.arange(12, dtype="float32").reshape(4, 3)
    record = shelf.sharded(rows, [((0, 0), (4, 3))])
    other = tmp_path / "other"
    for blob in list(shelf.blobs.list("checkpoints/")):
        path = other / blob.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(shelf.blobs.get(blob.key))
    for path in shelf.folder.rglob("*.safetensors"):
        path.write_bytes(b"?")
    copies = (Copy(url=shelf.blobs.url, at=1), Copy(url=f"file://{other}", at=2))
    both = record.model_copy(update={"copies": copies})
    download(shelf.blobs, both, tmp_path / "out")
    assert np.array_equal(load_file(tmp_path / "out" / "model.safetensors")["w"], rows)


# --- the plan alone ----------------------------------------------------------------------------


def state(tree: Any, *tensors: str) -> StateFile:
    refs = [
        TensorRef(name=name, dtype="float32", shape=(2,), pieces=((0, name, 0),))
        for name in tensors
    ]
    return StateFile(tree=tree, files=("f" * 64,), tensors=tuple(refs))


def ordered(**items: int) -> Any:
    pairs = [[name, {"$": ["tensor", index, False]}] for name, index in items.items()]
    return {"$": ["ordered", pairs, {"": {"version": 1}}]}


def test_names_that_loading_ties_are_left_out_and_others_stay() -> None:
    tree = {
        "models": [ordered(wte=0, head=0), ordered(a=1, b=1)],
        "exports": {"models": [{"files": {}, "left_out": ["head"]}, None], "tokenizer": {}},
    }
    first, second = huggingface.plan(state(tree, "wte", "a")).outputs
    assert set(json.loads(first.header[8:])) == {"__metadata__", "wte"}
    assert set(json.loads(second.header[8:])) == {"__metadata__", "a", "b"}
    assert (first.name, second.name) == ("model.safetensors", "models.1.safetensors")


def test_a_second_model_of_transformers_has_a_folder_of_its_own() -> None:
    config = {"config.json": {"$": ["bytes", "e30="]}}
    exports = [{"files": config, "left_out": []}] * 2
    tree = {"models": [ordered(a=0), ordered(a=0)], "exports": {"models": exports}}
    layout = huggingface.plan(state(tree, "a"))
    assert [output.name for output in layout.outputs] == [
        "model.safetensors",
        "models.1/model.safetensors",
    ]
    assert layout.texts == {"config.json": b"{}", "models.1/config.json": b"{}"}


def test_what_compiling_puts_into_names_is_taken_out() -> None:
    tree = {"models": [ordered(**{"_orig_mod.a": 0, "b._orig_mod.c": 1})]}
    (output,) = huggingface.plan(state(tree, "a", "c")).outputs
    assert set(json.loads(output.header[8:])) == {"__metadata__", "a", "b.c"}


def test_the_modules_in_a_scripts_state_are_its_models() -> None:
    tree = {
        "state": {
            "generator": ordered(w=0),
            "optimizer": {"state": {"$": ["dict", []]}},
            "others": [{"critic": ordered(v=1)}, {"$": ["tuple", 1, ordered(u=2)]}],
        }
    }
    assert state_dicts(tree) == [{"w": 0}, {"v": 1}, {"u": 2}]
    outputs = huggingface.plan(state(tree, "w", "v", "u")).outputs
    assert [output.name for output in outputs] == [
        "model.safetensors",
        "models.1.safetensors",
        "models.2.safetensors",
    ]


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden"])
def test_no_file_is_written_outside_of_the_folder(name: str) -> None:
    files = {name: {"$": ["bytes", "e30="]}}
    tree = {
        "models": [ordered(a=0)],
        "exports": {"models": [{"files": files}], "tokenizer": files},
    }
    assert huggingface.plan(state(tree, "a")).texts == {}
