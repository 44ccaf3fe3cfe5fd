"""The agent proves, beside an attempt, that what its trial saves can be restored."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from burst.core.config.cluster import ClusterConfig, LocalPool
from burst.core.ids import new_id
from burst.core.launch import ALLOCATION_VARIABLE, LAUNCH_VARIABLE
from burst.core.model import Checkpoint, DrainCause, Trial
from burst.core.states import AllocationState
from burst.core.store import update
from burst.core.store.port import Put
from burst.runner.agent.attempts.rehearsal import PINNED, Verdict, read_verdict
from tests.agent.conftest import CLOCK, Cluster, Do, Running, eventually

TRAIN: Do = [("until_asked", 120)]
SCRIPT = str(Path(__file__).with_name("rehearsing.py"))


@pytest.mark.parametrize(
    ("status", "output", "expected"),
    [
        (0, 'noise\n{"good": true}\n', Verdict(good=True)),
        (1, '{"problems": ["a", "b"]}', Verdict(problem="a; b")),
        (
            1,
            '{"problems": [{"key": "x", "text": "is missing"}, 2, 3, 4, 5]}',
            Verdict(problem="x: is missing; 2; 3; and 2 more"),
        ),
        (1, '{"good": false}\nbye', Verdict(problem="it did not come out as saved")),
        (1, "Traceback: No module named x", Verdict()),
        (-9, '{"good": true}', Verdict()),
        (None, "", Verdict()),
        (2, '{"problems": "bad usage"}', Verdict()),
    ],
)
def test_only_a_report_with_its_status_is_a_verdict(
    status: int | None, output: str, expected: Verdict
) -> None:
    assert read_verdict(status, output) == expected


@dataclass
class Stage:
    """A trial that trains where nodes are lost, and what its rehearsals are to say."""

    cluster: Cluster
    begin: Callable[..., Running]
    home: Path
    allocation: str = ""
    trial_id: str = ""

    def says(self, why: Any = (), **by_checkpoint: str) -> None:
        found = {"why": why, **{k.replace("every", "*"): v for k, v in by_checkpoint.items()}}
        (self.home / "rehearsal.json").write_text(json.dumps(found))

    def train(self, *, loses_nodes: bool = True, **settings: Any) -> Running:
        pools = {"local": LocalPool(loses_nodes=loses_nodes)}
        ws = replace(self.cluster.ws, cluster=ClusterConfig(pools=pools))
        node = self.cluster.node()
        made = self.cluster.assign(node, TRAIN)
        self.allocation, self.trial_id = made.id, made.trial
        settings = {"rehearse": (SCRIPT,), "rehearse_every": 0.05, **settings}
        return self.begin(node, ws=ws, **settings)

    def save(self, batches: int, **fields: Any) -> str:
        id = new_id("ckpt", CLOCK)
        record = Checkpoint(
            id=id,
            trial=self.trial_id,
            experiment=self.trial.experiment,
            attempt=1,
            batches=batches,
            created=CLOCK.now(),
            url=self.cluster.ws.blobs.url,
            manifest=f"checkpoints/{self.trial_id}/{id}/manifest.json",
            size=1,
            **fields,
        )
        self.cluster.ws.store.commit(Put(record))
        update(
            self.cluster.ws.store,
            Trial,
            self.trial_id,
            lambda trial: trial.model_copy(update={"checkpoint": id}),
        )
        return id

    @property
    def trial(self) -> Trial:
        return self.cluster.ws.store.get(Trial, self.trial_id)

    def checkpoint(self, id: str) -> Checkpoint:
        return self.cluster.ws.store.get(Checkpoint, id)

    def told(self) -> list[tuple[str, str]]:
        events = self.cluster.ws.store.events().events
        return [(e.name, e.text) for e in events if e.name.startswith("checkpoint.")]

    def process(self, id: str) -> dict[str, Any]:
        """What the rehearsal of a checkpoint found of itself, once it has begun."""
        path = self.home / f"{id}.json"
        eventually(lambda: path.exists() and path.stat().st_size)
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def training(self) -> None:
        self.cluster.reaches(self.allocation, AllocationState.RUNNING)


@pytest.fixture
def stage(cluster: Cluster, start: Callable[..., Running]) -> Stage:
    made = Stage(cluster, start, cluster.ws.home)
    made.says(every="good")
    return made


def test_the_first_checkpoint_is_proved_beside_training(stage: Stage) -> None:
    stage.train()
    stage.training()
    id = stage.save(3)
    eventually(lambda: stage.trial.proved == id)
    assert stage.told() == [("checkpoint.proved", "checkpoint at batch 3 proved to restore")]
    found = stage.process(id)
    assert found["nice"] == 19
    assert not {ALLOCATION_VARIABLE, LAUNCH_VARIABLE} & set(found["environ"])
    assert found["folder"].endswith("/code")
    eventually(lambda: not stage.checkpoint(id).pinned)
    later = stage.save(6)
    assert stage.cluster.allocation(stage.allocation).exit is None
    assert stage.trial.proved == id
    assert not (stage.home / f"{later}.json").exists()


def test_what_does_not_come_out_as_saved_is_told_and_the_next_one_tried(stage: Stage) -> None:
    stage.says(why=["the optimizer differs"], every="bad")
    stage.train()
    stage.training()
    stage.save(3)
    eventually(lambda: stage.trial.unprovable == "the optimizer differs")
    assert stage.told() == [
        (
            "checkpoint.unprovable",
            "checkpoint at batch 3 does not restore: the optimizer differs",
        )
    ]
    stage.says(every="good")
    id = stage.save(6)
    eventually(lambda: stage.trial.proved == id)
    assert stage.trial.unprovable == ""


def test_a_rehearsal_that_is_killed_says_nothing_and_three_of_them_are_told(stage: Stage) -> None:
    stage.says(every="die")
    stage.train()
    stage.training()
    for batches in (1, 2, 3):
        assert stage.told() == []
        stage.process(stage.save(batches))
    eventually(lambda: stage.told())
    assert "it could not be tried" in stage.trial.unprovable


def test_where_no_node_is_lost_nothing_is_rehearsed(stage: Stage) -> None:
    running = stage.train(loses_nodes=False)
    stage.training()
    id = stage.save(3)
    stage.cluster.drain(stage.allocation, DrainCause.PAUSE)
    stage.cluster.released(stage.allocation)
    running.tell_to_leave()
    running.join()
    assert not (stage.home / f"{id}.json").exists()
    assert stage.trial.proved == ""


def test_retention_cannot_take_a_checkpoint_away_under_its_rehearsal(stage: Stage) -> None:
    stage.says(every="hang")
    stage.train()
    stage.training()
    id = stage.save(3)
    stage.process(id)
    found = stage.checkpoint(id)
    assert (found.pinned, found.pin_reason) == (True, PINNED)


def test_an_agent_that_leaves_ends_a_rehearsal_and_frees_the_checkpoint(stage: Stage) -> None:
    stage.says(every="hang")
    running = stage.train()
    stage.training()
    id = stage.save(3)
    pid = stage.process(id)["pid"]
    running.tell_to_leave()
    running.join()
    assert not psutil.pid_exists(pid)
    assert not stage.checkpoint(id).pinned
    assert (stage.trial.proved, stage.told()) == ("", [])


def test_what_a_drain_leaves_is_proved_after_the_slots_are_free(stage: Stage) -> None:
    stage.train(rehearse_every=600.0)
    stage.training()
    id = stage.save(3)
    stage.cluster.drain(stage.allocation, DrainCause.MOVE)
    stage.cluster.released(stage.allocation)
    eventually(lambda: stage.trial.proved == id)


def test_what_a_dead_agent_has_left_pinned_is_freed(stage: Stage) -> None:
    stage.train()
    stage.training()
    id = stage.save(3, pinned=True, pin_reason=PINNED)
    eventually(lambda: stage.trial.proved == id)
    eventually(lambda: not stage.checkpoint(id).pinned)


def test_a_checkpoint_that_a_person_has_pinned_stays_so(stage: Stage) -> None:
    stage.train()
    stage.training()
    id = stage.save(3, pinned=True, pin_reason="for the paper")
    eventually(lambda: stage.trial.proved == id)
    assert stage.checkpoint(id).pin_reason == "for the paper"


def test_a_trial_that_is_anothers_ends_its_rehearsal_and_frees_the_checkpoint(
    stage: Stage,
) -> None:
    stage.says(every="hang")
    stage.train()
    stage.training()
    id = stage.save(3)
    pid = stage.process(id)["pid"]
    stage.cluster.lose(stage.allocation)
    eventually(lambda: not psutil.pid_exists(pid))
    eventually(lambda: not stage.checkpoint(id).pinned)
    assert (stage.trial.proved, stage.told()) == ("", [])
