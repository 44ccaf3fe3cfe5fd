from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burst.cli.driving import driving
from burst.core.model import (
    Allocation,
    DrainCause,
    Experiment,
    Refusal,
    RefusalKind,
    Supply,
    Trial,
)
from burst.core.states import ExperimentState, Reason, TrialState
from burst.core.testing import examples
from tests.cli import world
from tests.cli.conftest import Burst

CLUSTER = """
pools:
  local: {kind: local, slots: 2}
  spot: {kind: static, slots_per_node: 2, loses_nodes: true}
  small: {kind: static, slots_per_node: 1, max_nodes: 1}
"""


def experiment(slots: int = 1, **changes: Any) -> Experiment:
    written = {"name": "n", "reproducibility": {"experiment_seed": 1}}
    config = {**world.experiment().config, **written, "resources": {"slots_per_trial": slots}}
    return world.experiment(config=config, **changes)


@pytest.fixture(autouse=True)
def _cluster(tmp_path: Path) -> None:
    (tmp_path / "burst.yaml").write_text(CLUSTER)


@pytest.fixture
def held(burst: Burst) -> str:
    """A paused trial of a paused experiment: nothing for a runner to do."""
    trial = world.trial(state=TrialState.PAUSED, pool="local")
    world.put(burst.store, experiment(state=ExperimentState.PAUSED), trial)
    return trial.id


def test_a_paused_trial_is_told_to_go_on_elsewhere(burst: Burst, held: str) -> None:
    told = burst("move", held, "--pool", "small").stderr
    assert told == (
        f"{held} is paused and will go on in pool small; let it with: burst resume {held}\n"
    )
    assert burst.store.get(Trial, held).pools == ("small",)


def test_json_is_an_array_of_trials_and_the_noun_has_the_command_too(
    burst: Burst, held: str
) -> None:
    (moved,) = burst.json("trial", "move", "latest.t0", "--pool", "small")
    assert (moved["id"], moved["pools"], moved["state"]) == (held, ["small"], "paused")


def test_a_running_trial_is_asked_to_leave_and_a_driver_elsewhere_sees_to_it(
    burst: Burst, burst_home: Path
) -> None:
    trial = world.training(proved="ckpt-1m3k9zq4w0b")
    lease = world.allocation(trial)
    world.put(burst.store, experiment(), trial, lease)
    with driving(burst_home):
        told = burst("move", trial.id, "--pool", "spot").stderr
    assert told == f"{trial.id} finishes its batch, checkpoints and goes on in pool spot\n"
    drain = burst.store.get(Allocation, lease.id).drain
    assert drain is not None
    assert drain.cause is DrainCause.MOVE


def test_what_has_arrived_is_not_waited_for(burst: Burst, held: str) -> None:
    assert "is paused" in burst("move", held, "--pool", "small", "--wait").stderr


@pytest.mark.parametrize(
    ("pool", "slots", "words", "status"),
    [
        ("smal", 1, "did you mean 'small'", 4),
        ("small", 2, "set resources.slots_per_trial to 1 or less", 5),
    ],
)
def test_a_pool_that_is_none_for_it_is_refused_with_what_would_do(
    burst: Burst, pool: str, slots: int, words: str, status: int
) -> None:
    trial = world.trial(state=TrialState.PAUSED, slots=slots)
    world.put(burst.store, experiment(slots, state=ExperimentState.PAUSED), trial)
    assert words in burst("move", trial.id, "--pool", pool, status=status).stderr
    assert burst.store.get(Trial, trial.id).pools == ("local",)


def test_an_unproved_trial_goes_where_nodes_are_lost_only_if_that_is_said(burst: Burst) -> None:
    trial = world.training(state=TrialState.PAUSED)
    world.put(burst.store, experiment(state=ExperimentState.PAUSED), trial)
    refused = burst("move", trial.id, "--pool", "spot", status=5).stderr
    assert "no checkpoint of it is proved to restore" in refused
    burst("move", trial.id, "--pool", "spot", "--unproved")
    assert burst.store.get(Trial, trial.id).pools == ("spot",)


def test_a_pool_is_needed_and_an_experiment_of_many_trials_is_refused(burst: Burst) -> None:
    world.fill(burst.store)
    assert "--pool" in burst("move", f"{world.RUNNING}.t0", status=2).stderr
    assert "say which" in burst("move", world.RUNNING, "--pool", "small", status=2).stderr


def test_a_stopped_pool_is_let_go_on(burst: Burst) -> None:
    refusal = Refusal(kind=RefusalKind.QUOTA, code="Vcpu", text="0", at=1.0, until=9e9)
    stopped = Reason(code="failing", text="three in a row")
    world.put(burst.store, Supply(id="spot", failures=3, stopped=stopped, refusals={"*": refusal}))
    assert burst("pool", "resume", "spot").stderr == "Pool spot may start nodes.\n"
    found = burst.store.get(Supply, "spot")
    assert (found.stopped, found.failures, dict(found.refusals)) == (None, 0, {})
    assert burst.json("pool", "resume", "spot")["name"] == "spot"


def test_the_list_of_pools_says_why_one_is_stopped_and_what_was_refused(burst: Burst) -> None:
    def refusal(at: float, until: float, text: str) -> Refusal:
        kind = RefusalKind.QUOTA
        return Refusal(kind=kind, code="Vcpu", text=text, at=world.NOW + at, until=until)

    assert "stopped" not in burst("pool", "list").stdout
    refusals = {
        "spot/*/P": refusal(-20, world.NOW + 90, "the quota is 0"),
        "spot/a/p": refusal(-10, world.NOW - 1, "this is over"),
    }
    stopped = Reason(code="failing", text="three in a row")
    world.put(burst.store, Supply(id="spot", stopped=stopped, refusals=refusals))
    shown = burst("pool", "list", COLUMNS="200").stdout
    assert "spot stopped: three in a row; `burst pool resume` lets it go on" in shown
    assert "spot refused: Vcpu for spot/*/P: the quota is 0; asked again in 1m 30s" in shown
    assert "this is over" not in shown
    of = {pool["name"]: pool for pool in burst.json("pool", "list")}
    assert of["spot"]["stopped"] == "three in a row"
    assert of["spot"]["refused"] == "Vcpu for spot/*/P: the quota is 0"
    assert of["spot"]["refused_until"] == world.NOW + 90
    assert {(pool["stopped"], pool["refused"]) for name, pool in of.items() if name != "spot"} == {
        (None, None)
    }


@pytest.mark.parametrize("words", [("pool", "resume"), ("node", "list", "--pool")])
def test_a_pool_that_there_is_not_is_not_found_and_the_nearest_is_named(
    burst: Burst, words: tuple[str, ...]
) -> None:
    told = burst(*words, "spto", status=4).stderr
    assert "there is no pool 'spto'" in told
    assert "did you mean 'spot'" in told


def test_nodes_of_a_pool_that_the_file_has_no_more_are_listed(burst: Burst) -> None:
    world.put(burst.store, examples.node(pool="old", gone=None))
    (row,) = burst.json("node", "list", "--pool", "old")
    assert row["pool"] == "old"
    assert burst.json("node", "list", "--pool", "small") == []
