"""What is on the disk: nothing that runs code, readable by others, and by every later burst."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file

from burst.core.blobs import open_blobs
from burst.core.checkpoints.format.manifest import Manifest
from burst.core.checkpoints.verify import verify
from burst.core.model import Checkpoint
from burst.core.store.port import Put
from burst.harness.checkpoints.codec import rng
from tests.harness.checkpoints.support import Lab, request, same

ROOT = Path(__file__).parents[3]
STORED = ROOT / "tests" / "data" / "checkpoints" / "format-1"


def stored_state() -> tuple[object, object]:
    """What `tests/data/checkpoints/format-1` holds, written by the burst that began the format."""
    weight = torch.arange(12, dtype=torch.float32).view(3, 4) / 7
    shared = {
        "models": [{"fc.weight": weight, "fc.bias": torch.ones(3, dtype=torch.bfloat16)}],
        "optimizers": [
            {
                "state": {0: {"step": torch.tensor(3.0), "exp_avg": weight * 2}},
                "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0]}],
            }
        ],
        "large": 2**100,
        "limits": [float("nan"), float("inf"), -0.0],
        "tied": [weight, b"\x00\xff", None, True],
    }
    return shared, {"position": 12, "generator": torch.arange(16, dtype=torch.uint8)}


def test_a_checkpoint_of_format_1_still_restores(lab: Lab) -> None:
    shutil.copytree(STORED, lab.folder, dirs_exist_ok=True)
    (key,) = (blob.key for blob in lab.blobs.list("checkpoints/") if "manifest" in blob.key)
    manifest = Manifest.decode(lab.blobs.get(key))
    record = Checkpoint(
        id=manifest.id,
        trial=manifest.trial,
        experiment=manifest.experiment,
        attempt=1,
        batches=manifest.done.batches,
        created=manifest.created,
        url=lab.blobs.url,
        manifest=key,
        size=manifest.size,
    )
    lab.store.commit(Put(record))
    assert verify(lab.blobs, record).good
    found = lab.engine(warm_start=record.id).restore()
    assert found is not None
    shared, own = stored_state()
    assert same(found.shared, shared)
    assert same(found.own, own)
    assert (found.done.batches, found.envelope) == (12, {"torch": "2.13.0"})


def test_the_stored_checkpoint_is_small() -> None:
    assert sum(path.stat().st_size for path in STORED.rglob("*") if path.is_file()) < 10_000


def test_no_file_is_anything_but_json_and_safetensors(lab: Lab) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.rand(3, 4)).sum().backward()
    optimizer.step()
    state = {"models": [model.state_dict()], "optimizers": [optimizer.state_dict()]}
    lab.engine().save(request(state, {"rng": rng.capture()}))
    kinds = set()
    for key in lab.stored():
        path = lab.folder / key
        kinds.add(path.suffix)
        if path.suffix == ".json":
            json.loads(path.read_bytes())
        else:
            assert load_file(path)
    assert kinds == {".json", ".safetensors"}


def test_nothing_in_these_rooms_can_pickle_or_run_code() -> None:
    rooms = ("harness/burst/harness/checkpoints", "core/burst/core/checkpoints")
    sources = [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    assert len(sources) > 10
    found = set()
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names):
                    found |= {alias.name.split(".")[0] for alias in names}
                case ast.ImportFrom(module=str(module)):
                    found.add(module.split(".")[0])
                case ast.Attribute(value=ast.Name("torch"), attr=attr):
                    found.add(f"torch.{attr}")
                case ast.Name(id):
                    found.add(id)
    forbidden = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
    forbidden |= {"torch.load", "torch.save", "torch.package", "torch.jit", "eval", "exec"}
    assert "torch.frombuffer" in found
    assert found & forbidden == set()


def test_a_hash_that_is_found_is_a_file_that_exists(lab: Lab) -> None:
    lab.engine().save(request(stored_state()[0]))
    blobs = open_blobs(lab.blobs.url)
    manifest = Manifest.decode(blobs.get(lab.records()[0].manifest))
    for entry in manifest.files:
        assert entry.sha256 in entry.key
        info = blobs.info(entry.key)
        assert info is not None
        assert info.size == entry.size
