"""A script that runs by itself does not fill its disk, and loses nothing that it would miss."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import burst.harness
from burst.core.blobs import open_blobs
from burst.core.checkpoints.removal.delete import indispensable, pin
from burst.core.errors import UsageError
from burst.core.model import Checkpoint, Experiment, Trial
from burst.core.store import open_store
from burst.harness.keeping import needless


def checkpoint(
    batches: int, metrics: Mapping[str, float] | None = None, **more: object
) -> Checkpoint:
    values = {
        "id": f"ckpt-{batches:011d}",
        "trial": "t",
        "experiment": "e",
        "attempt": 1,
        "batches": batches,
        "created": float(batches),
        "url": "file:///x",
        "manifest": "m",
        "size": 1,
        "metrics": metrics or {},
    }
    return Checkpoint.model_validate({**values, **more})


def run(
    folder: Path, *batches: int, keep: int | None = 3, metrics: Mapping[int, float] = {}
) -> None:
    with burst.harness.init(folder=folder, keep=keep) as context:
        context.checkpoint.restore()
        for number in batches:
            measured = {"accuracy": metrics[number]} if number in metrics else None
            context.checkpoint.save({"w": np.full(9, number)}, batches=number, metrics=measured)


def kept(folder: Path) -> list[int]:
    """By their records; and whatever has none has no file either."""
    store = open_store(f"sqlite://{folder / 'burst.db'}")
    (experiment,) = store.children(Experiment, "")
    (trial,) = store.children(Trial, experiment.id)
    there = [each for each in store.children(Checkpoint, trial.id) if each.deleted is None]
    store.close()
    keys = [blob.key for blob in open_blobs(f"file://{folder}").list("checkpoints/")]
    manifests = [key for key in keys if key.endswith("/manifest.json")]
    assert sorted(manifests) == sorted(each.manifest for each in there)
    return [each.batches for each in there]


def test_the_newest_three_stay_and_the_disk_does_not_grow(tmp_path: Path) -> None:
    run(tmp_path, *range(1, 6))
    assert kept(tmp_path) == [3, 4, 5]
    run(tmp_path, *range(6, 9))
    assert kept(tmp_path) == [6, 7, 8]


def test_a_script_says_how_many_and_none_is_all(tmp_path: Path) -> None:
    run(tmp_path / "one", 1, 2, 3, keep=1)
    run(tmp_path / "all", 1, 2, 3, 4, 5, keep=None)
    assert kept(tmp_path / "one") == [3]
    assert kept(tmp_path / "all") == [1, 2, 3, 4, 5]


def test_the_best_stays_whether_more_is_better_or_less(tmp_path: Path) -> None:
    run(tmp_path, *range(1, 9), keep=1, metrics={1: 0.5, 2: 0.9, 3: 0.7, 4: 0.2, 5: 0.4})
    assert kept(tmp_path) == [2, 4, 8]


def test_what_is_pinned_stays(tmp_path: Path) -> None:
    run(tmp_path, 1, keep=1)
    store = open_store(f"sqlite://{tmp_path / 'burst.db'}")
    (experiment,) = store.children(Experiment, "")
    (trial,) = store.children(Trial, experiment.id)
    pin(store, store.children(Checkpoint, trial.id)[0].id)
    store.close()
    run(tmp_path, 2, 3, keep=1)
    assert kept(tmp_path) == [1, 3]


def test_it_is_said_once_that_older_ones_are_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, 1, 2, 3)
    assert "removed" not in capsys.readouterr().err
    run(tmp_path, 4, 5)
    assert capsys.readouterr().err.count("keep=None keeps all") == 1


@pytest.mark.parametrize("keep", [0, -1, True, 1.5, "3"])
def test_a_number_that_would_keep_nothing_is_refused(keep: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="keep"):
        burst.harness.init(folder=tmp_path / "state", keep=keep)
    assert not (tmp_path / "state").exists()


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("ab"), st.floats(), max_size=2),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 4),
)
def test_nothing_goes_that_would_be_missed_and_what_stays_is_bounded(
    made: list[tuple[dict[str, float], bool, bool]], keep: int
) -> None:
    records = [
        checkpoint(number, metrics, pinned=pinned, damaged="spoiled" if damaged else "")
        for number, (metrics, pinned, damaged) in enumerate(made)
    ]
    gone = {record.id for record in needless(records, keep)}
    good = [record for record in records if not record.damaged]
    assert not gone & {record.id for record in records if record.pinned}
    assert not gone & {record.id for record in indispensable(records)}
    assert not gone & {record.id for record in good[-keep:]}
    for name in "ab":
        values = [r.metrics[name] for r in good if name in r.metrics]
        values = [value for value in values if value == value]
        for best in [min(values), max(values)] if values else []:
            assert any(r.metrics.get(name) == best for r in good if r.id not in gone)
    stays = [record for record in good if record.id not in gone and not record.pinned]
    assert len(stays) <= keep + 4
