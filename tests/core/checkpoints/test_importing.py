"""Models that others have written become checkpoints, once, whole, and with little memory."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from burst.core.blobs import open_blobs
from burst.core.checkpoints.exchange import import_files
from burst.core.checkpoints.exchange.download import download
from burst.core.checkpoints.exchange.foreign import (
    Foreign,
    open_foreign,
    torch_files,
    written_by_torch,
)
from burst.core.checkpoints.exchange.importing import forget, import_model
from burst.core.checkpoints.exchange.source import find_source
from burst.core.checkpoints.rehearse import rehearse
from burst.core.checkpoints.removal.delete import delete, restorable, unpin
from burst.core.checkpoints.removal.uses import IMPORTS
from burst.core.errors import Conflict, NotFound, Refused, Unreachable, UsageError
from burst.core.model import Checkpoint, Model
from tests.core.blobs.mock_s3 import BUCKET, mock_s3
from tests.core.checkpoints.made import Shelf, foreign
from tests.harness.checkpoints.support import FAULTS, Died, Fault


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "blobs")


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A folder as Hugging Face lays it out."""
    folder = tmp_path / "gpt"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    (folder / "README.md").write_text("a model")
    return folder


def arrays() -> dict[str, Any]:
    return {
        "wte.weight": np.arange(3000, dtype="float32").reshape(300, 10),
        "half": np.arange(6, dtype="float16"),
        "flag": np.array([True, False]),
        "count": np.array(7, dtype="int64"),
        "none": np.zeros((0, 4), "float32"),
    }


def bring(shelf: Shelf, model: Foreign, name: str = "") -> Checkpoint:
    shelf.clock.advance(1)
    return import_model(shelf.blobs, shelf.store, model, shelf.clock, name=name)


def files(shelf: Shelf) -> set[str]:
    return {blob.key for blob in shelf.blobs.list("checkpoints/")}


def test_a_folder_comes_in_and_goes_out_again_the_same(
    shelf: Shelf, hub: Path, tmp_path: Path
) -> None:
    save_file(arrays(), hub / "model.safetensors")
    record = bring(shelf, open_foreign(hub))
    assert (record.trial, record.pinned) == ("imports", True)
    assert rehearse(shelf.blobs, record).good
    download(shelf.blobs, record, tmp_path / "out")
    found = load_file(tmp_path / "out" / "model.safetensors")
    assert set(found) == set(arrays())
    for name, array in arrays().items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
    assert (tmp_path / "out" / "config.json").read_text() == '{"model_type": "gpt2"}'
    assert not (tmp_path / "out" / "README.md").exists()


def test_a_folder_in_shards_comes_in_whole(shelf: Shelf, hub: Path, tmp_path: Path) -> None:
    where = {}
    for number, (name, array) in enumerate(arrays().items(), start=1):
        where[name] = f"model-{number:05d}-of-00005.safetensors"
        save_file({name: array}, hub / where[name])
    index = {"metadata": {}, "weight_map": where}
    (hub / "model.safetensors.index.json").write_text(json.dumps(index))
    record = bring(shelf, open_foreign(hub))
    download(shelf.blobs, record, tmp_path / "out")
    assert set(load_file(tmp_path / "out" / "model.safetensors")) == set(arrays())
    (hub / where["half"]).unlink()
    with pytest.raises(UsageError, match="files that are not beside it"):
        open_foreign(hub)


def test_the_same_model_again_is_the_same_checkpoint(shelf: Shelf) -> None:
    first = bring(shelf, foreign(arrays()))
    there = files(shelf)
    again = bring(shelf, foreign(arrays()), name="gpt")
    assert again.id == first.id
    assert files(shelf) == there
    assert find_source(shelf.store, "gpt").id == first.id


def test_what_two_models_have_in_common_is_written_once(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_files, "OWN_FILE_BYTES", 1000)
    first = bring(shelf, foreign(arrays()))
    changed = {**arrays(), "half": np.zeros(6, "float16")}
    before = sum(blob.size for blob in shelf.blobs.list("checkpoints/"))
    second = bring(shelf, foreign(changed))
    grown = sum(blob.size for blob in shelf.blobs.list("checkpoints/")) - before
    assert grown < before / 2
    delete(shelf.blobs, shelf.store, unpin(shelf.store, first.id), clock=shelf.clock)
    assert rehearse(shelf.blobs, second).good
    delete(shelf.blobs, shelf.store, unpin(shelf.store, second.id), clock=shelf.clock)
    assert files(shelf) == set()


def test_a_lender_that_is_removed_meanwhile_leaves_no_half_import(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_files, "OWN_FILE_BYTES", 1000)
    first = bring(shelf, foreign(arrays()))
    changed = {**arrays(), "half": np.zeros(6, "float16")}

    def remove() -> None:
        delete(shelf.blobs, shelf.store, unpin(shelf.store, first.id), clock=shelf.clock)

    shelf.clock.advance(1)
    # Two listings come first; the third call looks at the lender, right before the commit.
    fault = Fault(2, "hook", hook=remove)
    with pytest.raises(Conflict, match="removed or changed"):
        import_model(shelf.blobs, fault.around(shelf.store), foreign(changed), shelf.clock)
    assert files(shelf) == set()
    assert rehearse(shelf.blobs, bring(shelf, foreign(changed))).good


def test_a_fault_at_any_call_leaves_a_whole_import_or_none(shelf: Shelf) -> None:
    def scenario(fault: Fault, place: Shelf) -> Checkpoint:
        place.clock.advance(1)
        blobs, store = fault.around(place.blobs), fault.around(place.store)
        return import_model(blobs, store, foreign(arrays()), place.clock, name="gpt")

    clean = Fault()
    scenario(clean, shelf)
    assert len(clean.calls) > 5
    for mode in FAULTS:
        for at in range(len(clean.calls)):
            place = Shelf(shelf.folder.parent / f"{mode} {at}")
            with contextlib.suppress(Died, Unreachable):
                scenario(Fault(at, mode), place)
            records = restorable(place.store.children(Checkpoint, "imports"))
            assert len(records) <= 1
            assert all(rehearse(place.blobs, record).good for record in records)
            again = scenario(Fault(), place)
            assert rehearse(place.blobs, again).good
            assert find_source(place.store, "gpt").id == again.id
            place.clock.advance(2 * 24 * 3600)


def test_an_object_store_takes_an_import_and_gives_it_back(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(import_files, "OWN_FILE_BYTES", 1000)
    with mock_s3() as server:
        blobs = open_blobs(f"s3://{BUCKET}/models?endpoint_url={server}")
        record = import_model(blobs, shelf.store, foreign(arrays()), shelf.clock, name="gpt")
        assert record.url == blobs.url
        assert rehearse(shelf.blobs, record).good  # which finds the place by the record
        download(shelf.blobs, record, tmp_path / "out")
        found = load_file(tmp_path / "out" / "model.safetensors")
        assert {name: a.tobytes() for name, a in found.items()} == {
            name: a.tobytes() for name, a in arrays().items()
        }
        delete(blobs, shelf.store, _freed(shelf, record))
        assert list(blobs.list("checkpoints/")) == []


def _freed(shelf: Shelf, record: Checkpoint) -> Checkpoint:
    forget(shelf.store, record)
    return unpin(shelf.store, record.id)


def test_what_a_killed_import_left_is_gone_a_day_later(shelf: Shelf) -> None:
    left = "checkpoints/imports/ckpt-1m3k9zq4w7c/" + "a" * 64 + ".safetensors"
    shelf.blobs.put(left, b"left")
    shelf.clock.advance(shelf.blobs.info(left).modified - shelf.clock.now())  # type: ignore[union-attr]
    bring(shelf, foreign(arrays()))
    assert left in files(shelf)
    shelf.clock.advance(25 * 3600)
    bring(shelf, foreign({"w": np.ones(2, "float32")}))
    assert left not in files(shelf)


def test_a_name_gets_versions_and_keeps_its_checkpoints_until_it_is_taken_away(
    shelf: Shelf,
) -> None:
    first = bring(shelf, foreign(arrays()), name="gpt")
    second = bring(shelf, foreign({"w": np.ones(2, "float32")}), name="gpt")
    assert shelf.store.get(Model, "gpt").versions == (first.id, second.id)
    assert find_source(shelf.store, "gpt").id == second.id
    with pytest.raises(Refused):
        delete(shelf.blobs, shelf.store, unpin(shelf.store, second.id))
    assert forget(shelf.store, second) == ("gpt",)
    assert forget(shelf.store, second) == ()
    delete(shelf.blobs, shelf.store, shelf.store.get(Checkpoint, second.id))
    assert find_source(shelf.store, "gpt").id == first.id


@pytest.mark.parametrize("name", ["ckpt-1", "exp-1m3k9zq4w7c", "A", "a b", "-a", "../a"])
def test_a_name_that_could_be_an_id_or_a_path_is_refused(shelf: Shelf, name: str) -> None:
    with pytest.raises(UsageError, match="no name of a model"):
        bring(shelf, foreign(arrays()), name=name)


def test_files_that_are_no_models_are_refused_in_words(shelf: Shelf, hub: Path) -> None:
    with pytest.raises(NotFound):
        open_foreign(hub / "nothing")
    with pytest.raises(UsageError, match="holds no model"):
        open_foreign(hub)
    save_file(arrays(), hub / "model.safetensors")
    whole = (hub / "model.safetensors").read_bytes()
    for cut in (0, 4, 8, 50, len(whole) - 1):
        (hub / "model.safetensors").write_bytes(whole[:cut])
        with pytest.raises(UsageError, match="no whole safetensors file"):
            open_foreign(hub)
    (hub / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(UsageError, match="no whole safetensors file"):
        open_foreign(hub)
    (hub / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../../secret"}}')
    with pytest.raises(UsageError, match="not beside it"):
        open_foreign(hub)
    (hub / "notes.txt").write_text("x")
    with pytest.raises(UsageError, match="no file of weights"):
        open_foreign(hub / "notes.txt")
    with pytest.raises(UsageError, match="no tensors"):
        bring(shelf, Foreign("empty", []))


def test_what_torch_has_written_is_told_from_what_needs_none(hub: Path) -> None:
    (hub / "pytorch_model.bin").touch()
    assert written_by_torch(hub)
    (hub / "model.safetensors").touch()
    assert not written_by_torch(hub)
    assert written_by_torch(hub / "model.pt")


def test_an_import_takes_the_memory_of_two_files_and_needs_no_torch(
    shelf: Shelf, tmp_path: Path
) -> None:
    model = {f"layer.{n}": np.full(8_000_000, n, "float32") for n in range(8)}  # 256 MB
    save_file(model, tmp_path / "model.safetensors")
    del model
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from burst.core.blobs import open_blobs\n"
        "from burst.core.checkpoints.exchange.foreign import open_foreign\n"
        "from burst.core.checkpoints.exchange.importing import import_model\n"
        "from burst.core.clock import SystemClock\n"
        "from burst.core.store.memory import MemoryStore\n"
        f"blobs = open_blobs({shelf.blobs.url!r})\n"
        f"foreign = open_foreign(Path({str(tmp_path / 'model.safetensors')!r}))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "import_model(blobs, MemoryStore(), foreign, SystemClock())\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
        "print(sorted({'torch', 'numpy', 'safetensors'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    grown, loaded = done.stdout.split("\n")[:2]
    assert loaded == "[]"
    assert int(grown) * (1 if sys.platform == "darwin" else 1024) < 130e6


def test_an_index_that_names_another_file_for_a_tensor_is_refused(tmp_path: Path) -> None:
    save_file({"a": np.zeros(2)}, tmp_path / "m1.safetensors")
    index = {"weight_map": {"a": "m1.safetensors", "zz": "m1.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UsageError, match=r"m1.safetensors has no tensor zz"):
        open_foreign(tmp_path)


@pytest.mark.parametrize("found", [[], {}, {"weight_map": []}, {"weight_map": {"a": 1}}])
def test_an_index_that_is_none_is_refused_in_words(tmp_path: Path, found: Any) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(found))
    with pytest.raises(UsageError, match=r"is no index of weights") as caught:
        open_foreign(tmp_path)
    assert "weight_map" in caught.value.why


def test_bytes_after_the_tensors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"a": np.zeros(2)}, path)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(UsageError, match=r"no whole safetensors file"):
        open_foreign(path)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def nothing(path: Path) -> None:
    path.symlink_to("gone")


def itself(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors.index.json", "m.pt"])
@pytest.mark.parametrize("put", [pipe, nothing, itself])
def test_what_is_no_file_is_refused_and_not_waited_for(
    tmp_path: Path, name: str, put: Callable[[Path], None]
) -> None:
    put(tmp_path / name)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises((UsageError, NotFound)):
            torch_files(path) if name == "m.pt" else open_foreign(path)


@pytest.mark.parametrize("put", [pipe, nothing, itself])
def test_no_file_beside_the_weights_is_left_out_in_silence(
    hub: Path, put: Callable[[Path], None]
) -> None:
    save_file(arrays(), hub / "model.safetensors")
    put(hub / "added_tokens.json")
    with pytest.raises(UsageError) as refused:
        open_foreign(hub)
    assert "added_tokens.json" in str(refused.value)


def test_names_that_no_disk_takes_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "x" * 5000}})
    )
    for path in (tmp_path, tmp_path / ("y" * 5000)):
        with pytest.raises(UsageError, match="cannot be read") as refused:
            open_foreign(path)
        assert len(refused.value.why) < 300
    (tmp_path / "z" / "model.safetensors.index.json").mkdir(parents=True)
    with pytest.raises(UsageError, match="is no file"):
        open_foreign(tmp_path / "z")


def test_what_disappears_while_it_is_read_is_told(shelf: Shelf, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file(arrays(), path)
    found = open_foreign(path)
    path.unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        bring(shelf, found)
    assert shelf.store.children(Checkpoint, IMPORTS) == []


@pytest.mark.parametrize(
    ("name", "shape"), [('"\\ud800"', [1]), ('"a"', [0, 2**63]), ('"a"', [2**70, 0])]
)
def test_tensors_that_other_readers_do_not_take_are_refused(
    tmp_path: Path, name: str, shape: list[int]
) -> None:
    size = 4 * math.prod(shape)
    table = f'{{{name}:{{"dtype":"F32","shape":{shape},"data_offsets":[0,{size}]}}}}'.encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(table).to_bytes(8, "little") + table + bytes(size))
    with pytest.raises(UsageError, match="no whole safetensors file"):
        open_foreign(path)
