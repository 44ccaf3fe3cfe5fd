"""`burst checkpoint import, verify, download` and `burst run --from`, as a person calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from burst.cli import reading
from burst.cli.submitting import prepare, submit
from burst.core.model import Checkpoint, Experiment
from tests.cli import world
from tests.cli.conftest import Burst

EXPERIMENT = """
name: tune
entrypoint: [python, train.py]
searcher: {name: single, max_length: 5ba}
"""


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    folder = tmp_path / "gpt"
    folder.mkdir()
    save_file({"w": np.arange(6.0, dtype="float32")}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    (folder / "exp.yaml").write_text(EXPERIMENT)
    return folder / "exp.yaml"


def imported(burst: Burst, hub: Path, *more: str) -> str:
    return burst("checkpoint", "import", str(hub), *more).stdout.strip()


def test_an_imported_model_is_known_by_its_name_everywhere(
    burst: Burst, hub: Path, tmp_path: Path
) -> None:
    done = burst("checkpoint", "import", str(hub), "--name", "gpt")
    id = done.stdout.strip()
    assert "burst run --from gpt" in done.stderr
    assert imported(burst, hub) == id
    (row,) = burst.json("checkpoint", "list", "imports")
    assert (row["id"], row["trial"]) == (id, "imports")
    assert "a model's weights alone" in burst("checkpoint", "show", "gpt").stdout
    assert burst.json("checkpoint", "show", id[:12])["id"] == id
    out = tmp_path / "out"
    names = [
        Path(name).name for name in burst.json("checkpoint", "download", "gpt", str(out))["files"]
    ]
    assert names == ["model.safetensors", "config.json", "state.json", "manifest.json"]


def test_unpinning_an_import_takes_its_name_so_that_it_can_be_deleted(
    burst: Burst, hub: Path
) -> None:
    id = imported(burst, hub, "--name", "gpt")
    assert "pinned" in burst("checkpoint", "delete", "gpt", "-y", status=5).stderr
    assert "not called gpt any more" in burst("checkpoint", "unpin", "gpt").stderr
    assert "freed" in burst("checkpoint", "delete", id, "-y").stderr
    assert burst.json("checkpoint", "list", "imports") == []


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ((), {"what": "weights", "partial": False}),
        (("--weights-only", "--partial"), {"what": "weights", "partial": True}),
    ],
)
def test_from_is_written_into_the_experiment(
    burst: Burst, hub: Path, file: Path, options: tuple[str, ...], start: dict[str, Any]
) -> None:
    id = imported(burst, hub, "--name", "gpt")
    shown = burst("run", str(file), "--from", "gpt", "--dry-run", *options).stdout
    fitting = " that fit" if start["partial"] else ""
    assert f"the weights{fitting} of gpt" in shown
    settings = ["warm_start.checkpoint=gpt", *(["warm_start.partial=true"] if options else [])]
    submit(burst.session, prepare(burst.session, file, None, settings, ()))
    (experiment,) = burst.store.children(Experiment, "")
    assert experiment.config["warm_start"] == {"checkpoint": id, **start}
    assert burst.store.get(Checkpoint, id).started == (experiment.id,)


@pytest.mark.parametrize("name", ["1", "null", "true", "1e5", "007", "2026-01-01", "1.5", "no"])
def test_a_model_may_be_called_what_yaml_takes_for_something_else(
    burst: Burst, hub: Path, file: Path, name: str
) -> None:
    imported(burst, hub, "--name", name)
    assert (
        f"the weights of {name}\n" in burst("run", str(file), "--from", name, "--dry-run").stdout
    )


@pytest.mark.parametrize(
    ("typed", "status", "said"),
    [
        ("", 2, "an id is missing"),
        (" ", 2, "an id is missing"),
        ("exp-", 2, "an id is missing"),
        ("ckpt-", 2, "an id is missing"),
        (".", 4, "import it first: `burst checkpoint import . --name NAME`"),
        ("./gpt 2", 4, "`burst checkpoint import './gpt 2' --name NAME`"),
        ("/tmp", 4, "import it first"),
        ("s3://bucket/gpt", 4, "import it first"),
        ("exp-1m", 2, "more than one id"),
        ("ckpt-1m", 2, "more than one id"),
        ("ckpt-1m3k9zq4w0a", 4, "ckpt-1m3k9zq4w0a is deleted"),
        (world.RUNNING, 2, "has 4 trials: say which"),
        ("latest", 4, "no checkpoint to start from"),
        ("latest.t7", 4, "has no trial 7"),
        ("latest.t", 4, "no checkpoint, trial or model 'latest.t'"),
        (world.NODE, 4, "no checkpoint, trial or model"),
        ("imports", 4, "no checkpoint, trial or model"),
        ("[1]", 4, "no checkpoint, trial or model"),
    ],
)
def test_from_takes_no_guesses(
    burst: Burst, file: Path, typed: str, status: int, said: str
) -> None:
    world.fill(burst.store)
    assert said in burst("run", str(file), "--dry-run", "--from", typed, status=status).stderr
    assert len(burst.store.children(Experiment, "")) == 3


def test_from_takes_the_evident_meaning(burst: Burst, file: Path) -> None:
    world.fill(burst.store)
    for typed, meant in (
        (world.DONE, f"{world.DONE}.t0000"),
        ("1m3k9zq4w02", f"{world.DONE}.t0000"),
        (f"{world.DONE}.t0", f"{world.DONE}.t0000"),
        ("ckpt-1m3k9zq4wd", "ckpt-1m3k9zq4wdc"),
    ):
        shown = burst("run", str(file), "--from", typed, "--dry-run").stdout
        assert f"the weights of {meant}\n" in shown


def test_from_wins_over_the_file(burst: Burst, hub: Path, file: Path) -> None:
    imported(burst, hub, "--name", "gpt")
    for written in (
        "searcher: {name: single, max_length: 5ba, source_trial_id: exp-1m3k9zq4w7c.t0001}",
        "searcher: {name: single, max_length: 5ba}\nwarm_start: {checkpoint: other}",
    ):
        file.write_text(f"entrypoint: [python, train.py]\n{written}\n")
        assert "of gpt" in burst("run", str(file), "--from", "gpt", "--dry-run").stdout


def test_two_places_to_start_from_in_one_file_are_a_mistake(burst: Burst, file: Path) -> None:
    file.write_text(
        "entrypoint: [python, train.py]\n"
        "searcher: {name: single, source_checkpoint_uuid: ckpt-1m3k9zq4w7c}\n"
        "warm_start: {checkpoint: gpt}\n"
    )
    assert "exclude each other" in burst("run", str(file), "--dry-run", status=3).stderr
    file.write_text("entrypoint: [python, train.py]\nwarm_start: {checkpoint: ../gpt}\n")
    assert "the name of a model" in burst("run", str(file), "--dry-run", status=3).stderr


def test_what_cannot_be_started_from_is_told_before_anything_is_written(
    burst: Burst, hub: Path, file: Path
) -> None:
    id = imported(burst, hub)
    run = ("run", str(file), "--dry-run", "--from")
    assert "holds weights alone" in burst(*run, id, "--everything", status=5).stderr
    assert "there is no 'ckpt-zzz'" in burst(*run, "ckpt-zzz", status=4).stderr
    assert "checkpoint, trial or model 'gpt2'" in burst(*run, "gpt2", status=4).stderr
    world.fill(burst.store)
    assert "no checkpoint to start from" in burst(*run, f"{world.FAILED}.t0", status=4).stderr


def test_verifying_marks_what_is_lost_and_takes_the_mark_away(burst: Burst, hub: Path) -> None:
    id = imported(burst, hub)
    assert "is as it was written: 3 files" in burst("checkpoint", "verify", id).stdout
    (path,) = (burst.session.home / "blobs").rglob("*.safetensors")
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"?")
    assert "other bytes" in burst("checkpoint", "verify", id, "--no-mark", status=1).stdout
    assert burst.store.get(Checkpoint, id).damaged == ""
    told = burst("checkpoint", "verify", id, status=1)
    assert f"{id} is marked damaged" in told.stderr
    again = json.loads(burst("checkpoint", "verify", id, "--json", status=1).stdout)
    assert (again["lost"], again["marked"]) == (True, [])
    path.write_bytes(good)
    assert "is used again" in burst("checkpoint", "verify", id).stderr
    assert burst.store.get(Checkpoint, id).damaged == ""


@pytest.mark.parametrize(
    "size", ["much", "", "0", "0GB", "5", "999kB", "-5GB", "nan", "inf", "1e9", "9999999TB", "5 5"]
)
def test_a_size_of_shards_that_is_none_is_a_mistake_of_usage(
    burst: Burst, hub: Path, tmp_path: Path, size: str
) -> None:
    id = imported(burst, hub)
    refused = burst("checkpoint", "download", id, str(tmp_path / "out"), "--shard-size", size,
                    status=2)  # fmt: skip
    assert "Invalid value for --shard-size" in refused.stderr
    assert not (tmp_path / "out").exists()


def test_a_download_leaves_the_files_of_others_alone(
    burst: Burst, hub: Path, tmp_path: Path
) -> None:
    id = imported(burst, hub)
    (tmp_path / "out").mkdir()
    config = tmp_path / "out" / "config.json"
    config.write_text("mine")
    fetch = ("checkpoint", "download", id, str(tmp_path / "out"))
    refused = burst(*fetch, status=2).stderr
    assert "not this download's" in refused
    assert "Why:  config.json" in refused
    assert "overwrite them with --force" in refused
    assert config.read_text() == "mine"
    burst(*fetch, "--force")
    assert config.read_text() == '{"model_type": "gpt2"}'
    burst(*fetch)


def test_what_is_no_model_is_told_as_the_command_was_called(burst: Burst, tmp_path: Path) -> None:
    assert "there is no" in burst("checkpoint", "import", str(tmp_path / "x"), status=4).stderr
    (tmp_path / "empty").mkdir()
    assert "no model" in burst("checkpoint", "import", str(tmp_path / "empty"), status=2).stderr


@pytest.mark.slow
def test_what_torch_wrote_is_read_in_a_process_of_its_own(burst: Burst, tmp_path: Path) -> None:
    import torch

    torch.save({"model": {"w": torch.ones(3)}}, tmp_path / "m.pt")
    id = burst("checkpoint", "import", str(tmp_path / "m.pt")).stdout.strip()
    assert burst.store.get(Checkpoint, id).pin_reason == "imported from m.pt"
    torch.save(torch.nn.Linear(2, 2), tmp_path / "whole.pt")
    refused = burst("checkpoint", "import", str(tmp_path / "whole.pt"), status=2)
    assert "would run code" in refused.stderr
    shown = burst("checkpoint", "verify", id, "--load").stdout
    assert "restored in a process of its own: 1 tensor" in shown


@pytest.mark.parametrize(
    "words",
    [
        ("checkpoint", "import", ""),
        ("checkpoint", "import", " "),
        ("checkpoint", "download", "latest.t0", ""),
        ("checkpoint", "verify", "latest.t0", "--code", ""),
        ("run", ""),
        ("run", "exp.yaml", "--code", ""),
        ("config", "show", ""),
        ("init", ""),
    ],
)
def test_an_empty_path_is_no_path(
    filled: Burst, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert "the path is empty" in filled(*words, status=2).stderr
    assert list(here.iterdir()) == []


def test_a_key_is_refused_where_a_file_has_none(burst: Burst, hub: Path) -> None:
    for path in (hub, hub / "model.safetensors"):
        said = burst("checkpoint", "import", str(path), "--key", "ema.model", status=2).stderr
        assert f"{path} holds no state dict at 'ema.model'" in said
        assert "without --key" in said
    assert burst.json("checkpoint", "list", "imports") == []


@pytest.mark.parametrize("url", ["", "file://", "file:///", "file:relative", "s3://", "http://x"])
def test_what_names_no_place_to_give_up_is_told_of_the_argument(burst: Burst, url: str) -> None:
    said = burst("checkpoint", "lost", url, "-y", status=2).stderr
    assert f"{url!r} names no place of checkpoints" in said
    assert "BURST_BLOBS" not in said
    assert "lies in" in said


def test_the_best_checkpoint_of_a_trial_is_another_than_the_newest(burst: Burst) -> None:
    experiment, trial = world.experiment(), world.trial()
    metric = reading.metric_of(experiment)
    saved = {
        letter: world.checkpoint(trial, letter, batches=at, metrics={metric: value})
        for letter, at, value in (("b", 3, 0.5), ("c", 6, 0.2), ("d", 9, 0.4))
    }
    world.put(burst.session.store, experiment, trial, *saved.values())
    assert reading.best_checkpoint(experiment, saved.values()) == saved["c"]
    told = burst("checkpoint", "download", "--best", saved["b"].id, status=2)
    assert "leave --best out" in told.stderr
