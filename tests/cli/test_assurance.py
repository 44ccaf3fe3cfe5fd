"""A checkpoint that is late, fails, or is not proved is told on every surface, and alike."""

from __future__ import annotations

from typing import Any

import pytest

from burst.core.config.cluster import ClusterConfig, LocalPool
from burst.core.model import Trial
from burst.core.states import Reason, TrialState
from burst.core.store.port import Put
from tests.cli import world
from tests.cli.conftest import Burst

TRIAL = f"{world.RUNNING}.t0000"
LATE = "its newest checkpoint is 12m old, and one is due about every 5m"


@pytest.fixture
def shown(burst: Burst) -> Burst:
    """One experiment with one trial that trains, saved 12 seconds ago, and is every 5 minutes."""
    trial = world.training(training_since=world.NOW - 3600, checkpoint_interval=300.0)
    world.put(burst.store, world.experiment(), trial)
    return burst


def change(burst: Burst, **fields: Any) -> None:
    trial = burst.store.get(Trial, TRIAL)
    burst.store.commit(Put(trial.model_copy(update=fields)))


def test_the_age_and_the_interval_are_shown_without_noise(shown: Burst) -> None:
    assert "12s ago (every ~5m)  ckpt-1m3k9zq4w0b" in shown("show", TRIAL).stdout
    page = shown("show", world.RUNNING, COLUMNS="200").stdout
    assert "12s ago (every ~5m)" in page
    assert "late" not in page + shown("ls").stdout
    assert "Nothing waits" in shown("why").stdout


def test_why_without_an_id_looks_at_every_experiment_that_is_not_over(shown: Burst) -> None:
    words = "pool spot could not start a node"
    older = world.trial(1, wait=Reason(code="no-node", text=words))
    newer = world.experiment(world.DONE)
    world.put(shown.store, older, newer, world.training(0, world.DONE))
    page = shown("why").stdout
    assert words in page
    assert "Nothing waits" not in page
    assert {each["id"] for each in shown.json("why")} == {
        TRIAL, older.id, f"{world.DONE}.t0000"
    }  # fmt: skip
    assert "Nothing waits" in shown("why", world.DONE).stdout


def test_a_late_checkpoint_is_an_alarm_on_every_surface(shown: Burst) -> None:
    change(shown, checkpoint_at=world.NOW - 720)
    assert f"✘ t0000: {LATE}" in shown("show", TRIAL).stdout.replace("\n", " ")
    assert f"✘ t0000: {LATE}" in shown("show", world.RUNNING).stdout.replace("\n", " ")
    assert "✘ checkpoint late" in shown("ls").stdout
    assert LATE in shown("why").stdout.replace("\n", " ")
    (why,) = shown.json("why")
    assert why["alarm"].startswith(LATE)
    for found in (why, shown.json("show", TRIAL), shown.json("trial", "list", "latest")[0]):
        assert (found["checkpoint_late"], found["checkpoint_age_s"]) == (True, 720)


def test_a_late_checkpoint_is_red(shown: Burst) -> None:
    from burst.cli.views.trials import saved

    trial = shown.store.get(Trial, TRIAL)
    assert "red" not in str(saved(trial, world.NOW).style)
    assert "red" in str(saved(trial, world.NOW + 600).style)


def test_without_a_checkpoint_the_time_of_training_is_told(shown: Burst) -> None:
    change(shown, checkpoint="", checkpoint_at=None, training_since=world.NOW - 700)
    assert "none yet after 11m of training (every ~5m)" in shown("show", TRIAL).stdout
    assert "has trained for 11m40s without a checkpoint" in shown("why").stdout.replace("\n", " ")


def test_why_saving_fails_is_told_before_it_is_late(shown: Burst) -> None:
    change(shown, checkpoint_problem="cannot write x\n  Why:  No space left on device")
    words = (
        "! t0000: the newest attempt to save it failed: cannot write x: No space left on device"
    )
    for id in (TRIAL, world.RUNNING):
        assert words in shown("show", id, COLUMNS="200").stdout
    assert shown.json("show", TRIAL)["checkpoint_problem"].startswith("cannot write x")
    change(shown, checkpoint_at=world.NOW - 720)
    assert "failed: cannot write x: No space left" in shown.json("why")[0]["alarm"]


@pytest.mark.parametrize("state", [TrialState.COMPLETED, TrialState.FAILED])
def test_what_does_not_run_is_never_late(shown: Burst, state: TrialState) -> None:
    change(shown, state=state, checkpoint_at=world.NOW - 9000, checkpoint_problem="disk full")
    page = shown("show", world.RUNNING).stdout + shown("ls").stdout
    assert "late" not in page
    assert "disk full" not in page
    assert not shown.json("show", TRIAL)["checkpoint_late"]


def test_a_paused_trial_whose_last_save_failed_is_shown_as_such(shown: Burst) -> None:
    change(shown, state=TrialState.PAUSED, checkpoint_problem="disk full")
    page = shown("show", world.RUNNING, COLUMNS="200").stdout
    assert "what it trained last is not saved: disk full" in page
    assert not shown.json("show", TRIAL)["checkpoint_late"]


def test_a_proof_is_shown_where_nodes_are_lost(shown: Burst) -> None:
    assert "restore" not in shown("show", TRIAL).stdout
    shown.session.workspace = type(shown.session.workspace)(
        shown.session.workspace.home,
        ClusterConfig(pools={"local": LocalPool(loses_nodes=True)}),
        shown.store,
        shown.session.workspace.blobs,
    )
    assert "not proved yet" in shown("show", TRIAL).stdout
    change(shown, unprovable="the optimizer differs")
    assert "✘ not as it was saved: the optimizer differs" in shown("show", TRIAL).stdout
    change(shown, unprovable="", proved="ckpt-1m3k9zq4w0b")
    assert "proved with ckpt-1m3k9zq4w0b" in shown("show", TRIAL).stdout
    assert shown.json("show", TRIAL)["proved"] == "ckpt-1m3k9zq4w0b"


@pytest.mark.parametrize("name", ["checkpoint.late", "checkpoint.failed", "checkpoint.unprovable"])
def test_whoever_follows_sees_an_alarm(name: str) -> None:
    from burst.cli.following import Happening
    from burst.cli.views.lines import happening

    one = Happening("event", world.NOW, TRIAL, name, "it is\n late", {})
    line = happening(one, world.RUNNING, "validation_loss")
    saved = "a checkpoint was not saved: " * (name == "checkpoint.failed")
    assert line.plain.endswith(f"t0000  ✘ {saved}it is late")
    assert any("red" in str(span.style) for span in line.spans)
