"""The first contact of a script: what cannot be is refused in words, and nothing is made of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import burst.harness
from burst.core.errors import BurstError, UsageError
from burst.core.ids import trial_id
from burst.core.model import Experiment
from burst.core.store import open_store
from burst.harness import pytorch_init

FOLDERS = [
    (3, "a path, and not an int"),
    (b"runs", "a path, and not a bytes"),
    (["runs"], "a path, and not a list"),
    ("", "a variable that is not set"),
    ("  ", "a variable that is not set"),
    ("a\0b", "a variable that is not set"),
    ("s3://bucket/runs", "a folder of this machine"),
    ("file:///runs", "a folder of this machine"),
    ("\ud800", "cannot be written as UTF-8"),
    ("runs/\udcff", "cannot be written as UTF-8"),
    ("a file", "a file is not a folder"),
    ("a file/beneath", "a file is not a folder"),
    ("x" * 300, "File name too long"),
    ("device/beneath", "device is not a folder"),
]

NAMES = [
    (3, "an int"),
    ("lr=0.1", "a str"),
    ([("lr", 0.1)], "a list"),
    ({1: 0.1}, "an int"),
    ({None: 0.1}, "a NoneType"),
]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file").write_text("precious")
    (tmp_path / "device").symlink_to("/dev/null")


def _init(**arguments: Any) -> None:
    burst.harness.init(**arguments).close()


def _pytorch_init(**arguments: Any) -> None:
    with pytorch_init(**arguments):
        pass


@pytest.mark.parametrize("call", [_init, _pytorch_init])
@pytest.mark.parametrize(("folder", "why"), FOLDERS, ids=repr)
def test_a_folder_that_cannot_be_one_is_refused_and_nothing_is_made(
    call: Any, folder: Any, why: str, tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError) as caught:
        call(folder=folder)
    assert "folder" in caught.value.what
    assert why in caught.value.why
    assert caught.value.mend
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "a file").read_text() == "precious"


@pytest.mark.parametrize(
    ("call", "argument"),
    [(_init, "hparams"), (_pytorch_init, "hparams"), (_pytorch_init, "exp_conf")],
)
@pytest.mark.parametrize(("value", "kind"), NAMES, ids=repr)
def test_hyperparameters_that_are_no_names_and_values_are_refused(
    call: Any, argument: str, value: Any, kind: str
) -> None:
    with pytest.raises(UsageError) as caught:
        call(**{argument: value})
    assert f"`{argument}`" in caught.value.what
    assert f"not {kind}" in caught.value.why
    assert f"{argument}=" in caught.value.mend


@pytest.mark.parametrize("value", ["7", 1.5, -1, True, None], ids=repr)
@pytest.mark.parametrize("argument", ["seed", "aggregation_frequency"])
def test_a_number_that_is_none_is_refused(argument: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"`{argument}` is") as caught:
        _pytorch_init(**{argument: value})
    assert "a whole number" in caught.value.why
    assert caught.value.mend


@pytest.mark.parametrize("seed", [2**63, 2**64, pytest.param(10**5000, id="long")])
def test_a_seed_beyond_what_generators_take_is_refused_with_its_range(seed: int) -> None:
    with pytest.raises(UsageError, match="`seed` is") as caught:
        _pytorch_init(seed=seed)
    assert f"0 to {2**63 - 1}" in caught.value.why
    _pytorch_init(seed=2**63 - 1)


REPORTS = [
    (None, {"a": 1}, "a group of metrics is called None"),
    (1, {"a": 1}, "a group of metrics is called 1"),
    ("", {"a": 1}, "a group of metrics is called ''"),
    ("g\ud800", {"a": 1}, "a group of metrics is called"),
    ("own", {"lo\ud800": 1}, "a metric is called"),
    ("own", {"": 1}, "a metric is called ''"),
    ("own", {1: 1}, "a metric is called 1"),
    ("own", {"a": 10**400}, "a number that is too large"),
    ("own", 3, "metrics are a dict"),
]


@pytest.mark.parametrize(("group", "metrics", "words"), REPORTS)
def test_a_report_that_cannot_be_kept_is_refused_and_all_others_are_stored(
    group: Any, metrics: Any, words: str, tmp_path: Path
) -> None:
    with burst.harness.init(folder="runs") as context:
        context.train.report_training_metrics(1, {"loss": 1.0})
        with pytest.raises(BurstError, match=words):
            context.train.report_metrics(group, 2, metrics)
        context.train.report_training_metrics(3, {"loss": 1.0})
        context.checkpoint.save({"n": 3}, batches=3)
    store = open_store(f"sqlite://{tmp_path / 'runs/burst.db'}")
    (experiment,) = store.children(Experiment, "")
    chunks = store.metrics(trial_id(experiment.id, 0))
    store.close()
    assert {chunk.group for chunk in chunks} == {"training"}
    assert [row.batches for chunk in chunks for row in chunk.rows] == [1, 3]


@pytest.mark.parametrize(
    "arguments",
    [("x",), (-3,), (True,), (1.5,), (None,)],
)
def test_a_default_length_that_is_none_is_refused(arguments: tuple[Any, ...]) -> None:
    with burst.harness.init() as context:
        with pytest.raises(UsageError, match="is no number of batches"):
            context.max_batches(*arguments)
        with pytest.raises(UsageError, match="`epoch` is"):
            context.max_batches(5, epoch=arguments[0] or 0)
        with pytest.raises(UsageError, match="`batch` is"):
            context.max_batches(5, batch=arguments[0])
        assert context.max_batches(5, epoch=3, batch=2) == 5


def test_a_store_that_is_none_is_told_as_an_error_of_burst(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/burst.db").write_text("this is no database, and was here before")
    with pytest.raises(BurstError, match="not a whole burst store"):
        _init(folder="runs")


def test_a_path_and_what_is_like_one_are_folders(tmp_path: Path) -> None:
    for folder in ("runs/one", tmp_path / "two", "."):
        _init(folder=folder, hparams={"lr": 0.1})
        assert (tmp_path / folder / "burst.db").is_file()


def test_a_script_that_keeps_only_metrics_never_loads_torch() -> None:
    script = (
        "import sys, burst.harness\n"
        "with burst.harness.init(folder='runs') as context:\n"
        "    context.train.report_training_metrics(1, {'loss': 1.0})\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
