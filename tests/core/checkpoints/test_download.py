"""Checkpoints handed out as ordinary files: readable by others, verified, resumable."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from burst.core.checkpoints import ahead
from burst.core.checkpoints.exchange import download as making
from burst.core.checkpoints.exchange.download import download
from burst.core.checkpoints.exchange.target import WORK
from burst.core.checkpoints.format.manifest import Damaged, Manifest
from burst.core.checkpoints.verify import verify
from burst.core.errors import Unreachable, UsageError
from burst.core.model import Checkpoint
from burst.harness.checkpoints.saving import packs
from tests.core.checkpoints.made import contents
from tests.harness.checkpoints.support import FAULTS, Died, Fault, Lab, request, same


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(300, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.rounded = torch.nn.Linear(8, 8, dtype=torch.bfloat16)
        self.head = torch.nn.Linear(8, 300, bias=False)
        self.head.weight = self.embed.weight


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "PACK_BYTES", 2000)
    monkeypatch.setattr(packs, "OWN_FILE_BYTES", 500)
    monkeypatch.setattr(ahead, "THREADS", 1)  # so that the n-th call is always the same
    monkeypatch.setattr(making, "_NOTED_BYTES", 0)


def save(lab: Lab, shared: Any) -> Checkpoint:
    engine = lab.engine()
    engine.save(request(shared, {"rank": 0}, 3, metrics={"loss": float("nan")}))
    assert engine.poll() == []
    return lab.records()[-1]


def test_the_model_loads_with_safetensors_alone(lab: Lab, tmp_path: Path) -> None:
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    record = save(lab, {"models": [net.state_dict()], "optimizers": [optimizer.state_dict()]})
    paths = download(lab.blobs, record, tmp_path / "out")
    assert [p.name for p in paths] == ["model.safetensors", "state.json", "manifest.json"]
    assert set(contents(tmp_path / "out")) == {path.name for path in paths}
    loaded = load_file(tmp_path / "out" / "model.safetensors")
    assert same(loaded, {key: net.state_dict()[key] for key in loaded})
    other = Net()
    other.load_state_dict(loaded)
    assert same(other.state_dict(), net.state_dict())


def test_further_models_have_files_of_their_own(lab: Lab, tmp_path: Path) -> None:
    one, two = torch.nn.Linear(3, 200), torch.nn.Linear(4, 4)
    record = save(lab, {"models": [one.state_dict(), two.state_dict()]})
    download(lab.blobs, record, tmp_path / "out")
    loaded = load_file(tmp_path / "out" / "models.1.safetensors")
    assert same(loaded, {key: two.state_dict()[key] for key in loaded})
    assert loaded.keys() == two.state_dict().keys()


def test_a_state_without_models_gives_every_tensor_by_its_place(lab: Lab, tmp_path: Path) -> None:
    record = save(lab, {"net": {"w": torch.rand(3, 300)}, "step": 4})
    paths = download(lab.blobs, record, tmp_path / "out")
    assert paths[0].name == "tensors.safetensors"
    assert load_file(paths[0])["net.w"].shape == (3, 300)


def test_a_state_without_tensors_gives_its_json(lab: Lab, tmp_path: Path) -> None:
    record = save(lab, {"step": 4})
    paths = download(lab.blobs, record, tmp_path / "out")
    assert [p.name for p in paths] == ["state.json", "manifest.json"]


def test_the_state_file_is_strict_json_and_says_how_far_it_was_trained(
    lab: Lab, tmp_path: Path
) -> None:
    record = save(lab, {"models": [], "lr": 0.5})
    download(lab.blobs, record, tmp_path / "out")

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is not JSON")

    text = (tmp_path / "out" / "state.json").read_text()
    table = json.loads(text, parse_constant=refuse)
    assert table["checkpoint"] == record.id
    assert table["done"]["batches"] == 3
    assert table["metrics"] == {"loss": "NaN"}
    assert table["shared"]["tree"]["lr"] == 0.5


def test_files_are_readable_as_the_umask_says(lab: Lab, tmp_path: Path) -> None:
    paths = download(lab.blobs, save(lab, {"models": [Net().state_dict()]}), tmp_path / "out")
    probe = tmp_path / "probe"
    probe.touch()
    expected = stat.S_IMODE(probe.stat().st_mode)
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {expected}


def test_progress_grows_to_the_whole(lab: Lab, tmp_path: Path) -> None:
    record = save(lab, {"models": [Net().state_dict(), Net().state_dict()]})
    seen: list[tuple[int, int]] = []
    paths = download(lab.blobs, record, tmp_path / "out", lambda *pair: seen.append(pair))
    total = sum(path.stat().st_size for path in paths[:2])
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)
    assert len(seen) > 10


def test_a_download_goes_on_after_a_fault_at_any_call(lab: Lab, tmp_path: Path) -> None:
    record = save(lab, {"models": [Net().state_dict(), torch.nn.Linear(9, 99).state_dict()]})
    clean = Fault()
    download(clean.around(lab.blobs), record, tmp_path / "clean")
    expected = contents(tmp_path / "clean")
    assert len(clean.calls) > 10
    for mode in FAULTS:
        for at in range(len(clean.calls)):
            folder = tmp_path / f"{mode} {at}"
            with pytest.raises((Died, Unreachable)):
                download(Fault(at, mode).around(lab.blobs), record, folder)
            again = Fault()
            download(again.around(lab.blobs), record, folder)
            assert contents(folder) == expected
            # The manifest, the two halves of the state, and what was not fetched before.
            assert len(again.calls) <= max(3, len(clean.calls) - at + 3)


def test_a_finished_download_is_not_made_again(lab: Lab, tmp_path: Path) -> None:
    record = save(lab, {"models": [Net().state_dict()]})
    download(lab.blobs, record, tmp_path / "out")
    before = (tmp_path / "out" / "model.safetensors").stat().st_ino
    again = Fault()
    download(again.around(lab.blobs), record, tmp_path / "out")
    assert len(again.calls) == 3
    assert (tmp_path / "out" / "model.safetensors").stat().st_ino == before


def test_another_checkpoint_in_the_folder_is_not_overwritten(lab: Lab, tmp_path: Path) -> None:
    first = save(lab, {"models": [Net().state_dict()]})
    lab.clock.advance(60)
    second = save(lab, {"models": [Net().state_dict()]})
    download(lab.blobs, first, tmp_path / "out")
    with pytest.raises(UsageError, match="another checkpoint"):
        download(lab.blobs, second, tmp_path / "out")


def test_a_rest_of_another_checkpoint_is_not_gone_on_with(lab: Lab, tmp_path: Path) -> None:
    first = save(lab, {"models": [Net().state_dict()]})
    lab.clock.advance(60)
    net = Net()
    second = save(lab, {"models": [net.state_dict()]})
    with pytest.raises(Unreachable):
        download(Fault(6).around(lab.blobs), first, tmp_path / "out")
    assert (tmp_path / "out" / WORK / "model.safetensors.partial").exists()
    download(lab.blobs, second, tmp_path / "out")
    loaded = load_file(tmp_path / "out" / "model.safetensors")
    assert torch.equal(loaded["embed.weight"], net.embed.weight)


def test_damage_is_named_and_never_handed_out(lab: Lab, tmp_path: Path) -> None:
    record = save(lab, {"models": [Net().state_dict()]})
    manifest = Manifest.decode(lab.blobs.get(record.manifest))
    for number, entry in enumerate(manifest.files):
        path = lab.folder / entry.key
        good = path.read_bytes()
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        with pytest.raises(Damaged, match=entry.sha256):
            download(lab.blobs, record, tmp_path / str(number))
        assert not (tmp_path / str(number) / "manifest.json").exists()
        (problem,) = verify(lab.blobs, record).problems
        assert problem.key == entry.key
        path.write_bytes(good)
    assert verify(lab.blobs, record).good


def test_a_folder_that_cannot_be_written_is_named(lab: Lab, tmp_path: Path) -> None:
    record = save(lab, {"models": [Net().state_dict()]})
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file is in the way"):
        download(lab.blobs, record, tmp_path / "file")


def test_handing_out_needs_no_torch(lab: Lab, tmp_path: Path) -> None:
    record = save(lab, {"models": [Net().state_dict()]})
    program = (
        "import sys; from pathlib import Path\n"
        "from burst.core.blobs import open_blobs\n"
        "from burst.core.checkpoints.exchange.download import download\n"
        "from burst.core.model import Checkpoint\n"
        f"record = Checkpoint.model_validate_json({record.model_dump_json()!r})\n"
        f"download(open_blobs({lab.blobs.url!r}), record, Path({str(tmp_path / 'out')!r}))\n"
        "print(sorted({'torch', 'numpy', 'safetensors'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    assert load_file(tmp_path / "out" / "model.safetensors")
