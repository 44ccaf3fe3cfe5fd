"""Submitting, and what may be asked of what was submitted."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from burst.core.code.archive import code_key
from burst.core.config.cluster import AwsPool, ClusterConfig, LocalPool
from burst.core.config.experiment import ExperimentConfig
from burst.core.errors import NotFound, Refused, Unreachable, UsageError
from burst.core.model import Experiment, Trial
from burst.core.states import ExperimentState, TrialState
from burst.core.store.port import Write
from burst.core.workspace import Workspace, open_workspace
from burst.runner.commands import cancel, kill, pause, resume, submit
from burst.runner.reconcile import make_context, reconcile
from tests.runner.house import House, config_of


@dataclass(frozen=True)
class File:
    config: ExperimentConfig
    source: str = "name: n\n"
    seed_drawn: bool = False


def file(**fields: Any) -> File:
    return File(config_of(**fields))


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return open_workspace(cwd=tmp_path)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    return folder


def test_a_pool_that_is_set_up_wrong_is_told_to_those_alone_who_name_it(
    ws: Workspace, code: Path
) -> None:
    uneven = AwsPool(instance_types=("p5.48xlarge", "g5.xlarge"), max_nodes=1)
    ws = replace(ws, cluster=ClusterConfig(pools={"local": LocalPool(), "uneven": uneven}))
    submit(ws, file(resources={"pools": ["local"]}), code, owner="me")
    with pytest.raises(Refused, match="differ in slots"):
        submit(ws, file(resources={"pools": ["local", "uneven"]}), code, owner="me")


def test_submitting_carries_the_code_over_and_writes_the_experiment(
    ws: Workspace, code: Path
) -> None:
    made = submit(ws, file(), code, owner="ann")
    stored = ws.store.get(Experiment, made.experiment.id)
    assert stored == made.experiment
    assert (stored.owner, stored.state) == ("ann", ExperimentState.ACTIVE)
    assert ws.blobs.info(code_key(stored.code.digest)) is not None
    assert [e.name for e in ws.store.events(experiment=stored.id).events] == ["experiment.active"]


def test_the_same_again_while_it_is_live_is_the_same(ws: Workspace, code: Path) -> None:
    first = submit(ws, file(), code, owner="ann")
    again = submit(ws, file(), code, owner="ann")
    assert (again.attached, again.experiment.id) == (True, first.experiment.id)
    assert not submit(ws, file(), code, owner="ann", new=True).attached
    assert not submit(ws, file(), code, owner="bob").attached
    assert not submit(ws, file(max_restarts=1), code, owner="ann").attached
    (code / "train.py").write_text("print(2)\n")
    assert not submit(ws, file(), code, owner="ann").attached


def test_a_pool_in_the_cloud_needs_a_state_that_it_can_reach(tmp_path: Path, code: Path) -> None:
    pool = {"kind": "aws", "instance_types": ["c5.large"], "max_nodes": 1}
    here = {"store": f"sqlite://{tmp_path}/store.db", "blobs": f"file://{tmp_path}/blobs"}
    aws = {"region": "us-east-1"}
    cluster = {"cluster": "lab", "aws": aws, "pools": {"spot": pool}, **here}
    (tmp_path / "burst.yaml").write_text(json.dumps(cluster))
    ws = open_workspace(cwd=tmp_path)
    with pytest.raises(Refused, match="could not reach") as caught:
        submit(ws, file(), code, owner="ann")
    assert "store.db" in caught.value.why
    assert "dynamodb://" in caught.value.mend
    assert not ws.store.children(Experiment, "")


def test_the_same_after_its_end_is_a_new_one(ws: Workspace, code: Path) -> None:
    first = submit(ws, file(), code, owner="ann")
    cancel(ws, first.experiment.id)
    assert not submit(ws, file(), code, owner="ann").attached


def test_a_seed_that_nobody_chose_does_not_make_it_another(ws: Workspace, code: Path) -> None:
    def seeded(seed: int, drawn: bool) -> File:
        return replace(file(reproducibility={"experiment_seed": seed}), seed_drawn=drawn)

    submit(ws, seeded(1, True), code, owner="ann")
    assert submit(ws, seeded(2, True), code, owner="ann").attached
    assert not submit(ws, seeded(2, False), code, owner="ann").attached
    assert submit(ws, seeded(2, False), code, owner="ann").attached


def test_what_is_refused_leaves_nothing_behind(ws: Workspace, code: Path) -> None:
    with pytest.raises(Refused, match="never run"):
        submit(ws, file(resources={"slots_per_trial": 4000}), code, owner="ann")
    with pytest.raises(NotFound, match="code folder"):
        submit(ws, file(), code / "nowhere", owner="ann")
    assert ws.store.live(Experiment) == []
    assert list(ws.blobs.list("code/")) == []


def test_checkpoint_storage_that_cannot_be_written_is_told_before_anything_starts(
    ws: Workspace, code: Path
) -> None:
    (code / "file").touch()
    storage = {"type": "directory", "path": str(code / "file" / "below")}
    with pytest.raises(Unreachable, match="checkpoint storage cannot be written"):
        submit(ws, file(checkpoints={"storage": storage}), code, owner="ann")
    assert ws.store.live(Experiment) == []


def test_code_over_the_limit_is_refused(
    ws: Workspace, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (code / "weights.bin").open("wb") as large:
        large.truncate(101_000_000)
    with pytest.raises(Refused, match=r"100\.0 MB travel") as caught:
        submit(ws, file(), code, owner="ann")
    assert "weights.bin" in caught.value.why


# --- what may be asked, and when -----------------------------------------------------------------


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_every_command_may_be_repeated(house: House) -> None:
    experiment = house.submit()
    house.settle()
    for command in (pause, pause, resume, resume, cancel, cancel, kill):
        command(house.ws, experiment.id, clock=house.clock)
    house.run(3)
    assert house.experiment().state is ExperimentState.CANCELLED
    assert house.trial().state is TrialState.CANCELLED


@pytest.mark.parametrize("command", [pause, resume, cancel, kill])
def test_what_is_over_refuses_and_says_how_it_ended(house: House, command: Any) -> None:
    experiment = house.submit()
    house.run(until=house.over)
    with pytest.raises(Refused, match="cannot be") as caught:
        command(house.ws, experiment.id, clock=house.clock)
    assert "completed already" in caught.value.why
    with pytest.raises(Refused, match="cannot be"):
        command(house.ws, house.trial().id, clock=house.clock)


@pytest.mark.parametrize("command", [pause, resume, cancel, kill])
def test_ids_that_are_not_there_or_not_ids_are_said_so(house: House, command: Any) -> None:
    with pytest.raises(NotFound):
        command(house.ws, "exp-00000000000")
    with pytest.raises(NotFound):
        command(house.ws, "exp-00000000000.t0000")
    with pytest.raises(UsageError):
        command(house.ws, "../../etc")


def test_an_ending_experiment_can_be_killed_but_not_paused(house: House) -> None:
    experiment = house.submit()
    house.settle()
    cancel(house.ws, experiment.id, clock=house.clock)
    with pytest.raises(Refused, match="cannot be paused"):
        pause(house.ws, experiment.id, clock=house.clock)
    kill(house.ws, experiment.id, clock=house.clock)


def test_a_trial_of_a_paused_experiment_does_not_go_on_by_itself(house: House) -> None:
    experiment = house.submit()
    house.settle()
    pause(house.ws, experiment.id, clock=house.clock)
    with pytest.raises(Refused, match="cannot go on by itself") as caught:
        resume(house.ws, house.trial().id, clock=house.clock)
    assert experiment.id in caught.value.mend


def test_a_cancelled_trial_makes_room_for_the_next_of_its_search(house: House) -> None:
    house.submit(
        searcher={"name": "grid", "max_concurrent_trials": 1},
        hyperparameters={"x": {"type": "categorical", "vals": [1, 2]}},
    )
    house.settle()
    cancel(house.ws, house.trial().id, clock=house.clock)
    house.run(until=house.over)
    assert [t.state for t in house.trials()] == [TrialState.CANCELLED, TrialState.COMPLETED]
    assert house.experiment().state is ExperimentState.COMPLETED


def test_an_experiment_whose_every_trial_was_cancelled_is_cancelled(house: House) -> None:
    house.submit()
    house.settle()
    kill(house.ws, house.trial().id, clock=house.clock)
    house.run(until=house.over)
    assert house.experiment().state is ExperimentState.CANCELLED


def test_wishes_work_with_no_runner_alive(ws: Workspace, code: Path) -> None:
    made = submit(ws, file(), code, owner="ann").experiment
    pause(ws, made.id)
    assert ws.store.get(Experiment, made.id).state is ExperimentState.PAUSED
    cancel(ws, made.id)
    assert ws.store.get(Experiment, made.id).state is ExperimentState.STOPPING
    context = make_context(ws, House(ws.home).clock, {})
    while reconcile(context) == 0.0:
        pass
    assert ws.store.get(Experiment, made.id).state is ExperimentState.CANCELLED
    assert ws.store.children(Trial, made.id) == []


def test_two_who_submit_the_same_at_the_same_moment_get_one_experiment(
    ws: Workspace, code: Path
) -> None:
    class Late:
        """A store in which another equal submission comes just before the first commit."""

        def __init__(self) -> None:
            self.first = True

        def commit(self, *writes: Write) -> None:
            if self.first:
                self.first = False
                submit(ws, file(), code, owner="ann")
            ws.store.commit(*writes)

        def __getattr__(self, name: str) -> Any:
            return getattr(ws.store, name)

    late: Any = Late()
    made = submit(Workspace(ws.home, ws.cluster, late, ws.blobs), file(), code, owner="ann")
    assert made.attached
    assert [each.id for each in ws.store.live(Experiment)] == [made.experiment.id]
