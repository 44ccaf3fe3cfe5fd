"""Experiments that start from a checkpoint: resolved once, and kept while they are live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burst.core.checkpoints.exchange.source import find_source
from burst.core.checkpoints.removal.delete import delete
from burst.core.clock import ManualClock
from burst.core.config.experiment import ExperimentConfig, WarmStart
from burst.core.errors import NotFound, Refused
from burst.core.model import Checkpoint, Copy, Experiment, Model, Trial
from burst.core.states import ExperimentState, TrialState
from burst.core.store import update
from burst.core.store.port import Put, Write
from burst.core.workspace import Workspace, open_workspace
from burst.runner.commands import submit
from burst.runner.reconcile import make_context, reconcile
from tests.runner.house import config_of
from tests.runner.test_submit import File

SOURCE_TRIAL = "exp-1m3k9zq4w7c.t0000"


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return open_workspace(cwd=tmp_path)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    return folder


def checkpoint(ws: Workspace, letter: str, **changes: Any) -> str:
    id = f"ckpt-1m3k9zq4w7{letter}"
    values: dict[str, Any] = {
        "id": id, "trial": SOURCE_TRIAL, "experiment": "exp-1m3k9zq4w7c", "attempt": 1,
        "batches": ord(letter), "created": 1.0, "url": ws.blobs.url, "size": 1,
        "manifest": f"checkpoints/{SOURCE_TRIAL}/{id}/manifest.json",
    }  # fmt: skip
    ws.store.commit(Put(Checkpoint(**{**values, **changes})))
    return id


def source_trial(ws: Workspace, seed: int = 77) -> None:
    trial = Trial(
        id=SOURCE_TRIAL, experiment="exp-1m3k9zq4w7c", number=0, seed=seed, slots=1, pools=(),
        created=0, queued=0, state_since=0, state=TrialState.COMPLETED,
    )  # fmt: skip
    ws.store.commit(Put(trial))


def starting(**warm: Any) -> File:
    return File(config_of(warm_start=warm))


def start_of(experiment: Experiment) -> WarmStart | None:
    return ExperimentConfig.model_validate(experiment.config).start


def test_a_trial_is_resolved_to_its_newest_durable_checkpoint(ws: Workspace, code: Path) -> None:
    source_trial(ws)
    good = checkpoint(ws, "b")
    checkpoint(ws, "c", copies=(Copy(url="file:///d", at=1, node="node-1"),))
    checkpoint(ws, "d", damaged="rot")
    checkpoint(ws, "e", deleted=2.0)
    made = submit(ws, starting(checkpoint=SOURCE_TRIAL), code, owner="ann")
    assert start_of(made.experiment) == WarmStart(checkpoint=good)
    assert ws.store.get(Checkpoint, good).started == (made.experiment.id,)


@pytest.mark.parametrize("field", ["source_trial_id", "source_checkpoint_uuid"])
def test_determineds_fields_mean_the_weights(ws: Workspace, code: Path, field: str) -> None:
    source_trial(ws)
    id = checkpoint(ws, "b")
    named = SOURCE_TRIAL if field == "source_trial_id" else id
    file = File(config_of(searcher={"name": "single", field: named}))
    assert start_of(submit(ws, file, code, owner="ann").experiment) == WarmStart(checkpoint=id)


def test_a_name_is_its_newest_version(ws: Workspace) -> None:
    first, second = checkpoint(ws, "b"), checkpoint(ws, "c")
    ws.store.commit(Put(Model(id="gpt", created=1, versions=(first, second))))
    assert find_source(ws.store, "gpt").id == second
    with pytest.raises(NotFound, match="no model is called 'gpt2'"):
        find_source(ws.store, "gpt2")


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "deleted": ({"deleted": 2.0}, NotFound, "is deleted"),
    "damaged": ({"damaged": "rot"}, Refused, "is damaged"),
    "on one node": (
        {"copies": (Copy(url="file:///d", at=1, node="node-1"),)}, Refused, "disk of one node"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_started_from_is_refused_and_nothing_is_written(
    ws: Workspace, code: Path, kind: str
) -> None:
    changes, error, words = BAD[kind]
    id = checkpoint(ws, "b", **changes)
    with pytest.raises(error, match=words):
        submit(ws, starting(checkpoint=id), code, owner="ann")
    assert ws.store.children(Experiment, "") == []


def test_what_is_not_there_is_told(ws: Workspace, code: Path) -> None:
    with pytest.raises(NotFound):
        submit(ws, starting(checkpoint="ckpt-1m3k9zq4w7z"), code, owner="ann")
    source_trial(ws)
    with pytest.raises(NotFound, match="no checkpoint to start from"):
        submit(ws, starting(checkpoint=SOURCE_TRIAL), code, owner="ann")


def test_everything_is_not_asked_of_an_import(ws: Workspace, code: Path) -> None:
    id = checkpoint(ws, "b", trial="imports")
    with pytest.raises(Refused, match="weights alone"):
        submit(ws, starting(checkpoint=id, what="everything"), code, owner="ann")
    submit(ws, starting(checkpoint=id), code, owner="ann")


def test_a_source_stays_while_an_experiment_that_starts_from_it_is_live(
    ws: Workspace, code: Path
) -> None:
    id = checkpoint(ws, "b")
    first = submit(ws, starting(checkpoint=id), code, owner="ann")
    second = submit(ws, starting(checkpoint=id), code, owner="bob")
    assert ws.store.get(Checkpoint, id).started == (first.experiment.id, second.experiment.id)
    for each in (first, second):
        with pytest.raises(Refused):
            delete(ws.blobs, ws.store, ws.store.get(Checkpoint, id))
        update(
            ws.store,
            Experiment,
            each.experiment.id,
            lambda found: found.model_copy(update={"state": ExperimentState.CANCELLED}),
        )
    third = submit(ws, starting(checkpoint=id), code, owner="cyd")
    assert ws.store.get(Checkpoint, id).started == (third.experiment.id,)
    update(
        ws.store,
        Experiment,
        third.experiment.id,
        lambda found: found.model_copy(update={"state": ExperimentState.COMPLETED}),
    )
    delete(ws.blobs, ws.store, ws.store.get(Checkpoint, id))


def test_a_source_that_goes_at_the_last_moment_is_noticed(ws: Workspace, code: Path) -> None:
    id = checkpoint(ws, "b")
    commit = ws.store.commit

    def delete_first(*writes: Write) -> None:
        ws.store.commit = commit  # type: ignore[method-assign]
        delete(ws.blobs, ws.store, ws.store.get(Checkpoint, id))
        commit(*writes)

    ws.store.commit = delete_first  # type: ignore[method-assign]
    with pytest.raises(NotFound, match="is deleted"):
        submit(ws, starting(checkpoint=id), code, owner="ann")
    assert ws.store.children(Experiment, "") == []


@pytest.mark.parametrize(("what", "same"), [("weights", False), ("everything", True)])
def test_everything_takes_the_seed_that_the_order_of_data_follows_from(
    ws: Workspace, code: Path, what: str, same: bool
) -> None:
    source_trial(ws, seed=77)
    id = checkpoint(ws, "b")
    made = submit(ws, starting(checkpoint=id, what=what), code, owner="ann")
    ctx = make_context(ws, ManualClock(1_800_000_000.0), {})
    for _ in range(4):
        reconcile(ctx)
    (trial,) = ws.store.children(Trial, made.experiment.id)
    assert (trial.seed == 77) is same
