"""Reconcile brings what is wanted about, whatever the world does meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burst.core.checkpoints.format.manifest import manifest_key
from burst.core.ids import new_id
from burst.core.model import (
    Allocation,
    Checkpoint,
    DrainCause,
    Exit,
    ExitKind,
    Experiment,
    Lease,
    Node,
    Trial,
)
from burst.core.states import (
    AllocationState,
    ExperimentState,
    NodeState,
    TrialState,
    is_terminal,
)
from burst.core.store.port import Put
from burst.runner.commands import cancel, kill, pause, resume
from burst.runner.enforce import config_of
from burst.runner.loop import is_idle
from burst.runner.reconcile.exits import FAILURES_TO_BLOCK
from tests.runner.house import (
    COMPLETED,
    CRASHED,
    DIE,
    INFRASTRUCTURE,
    INVALID,
    House,
    forever,
)

GRID = {
    "searcher": {"name": "grid", "max_concurrent_trials": 2},
    "hyperparameters": {"x": {"type": "categorical", "vals": [1, 2, 3]}},
}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def running(house: House, number: int = 0) -> Any:
    return lambda: (
        len(house.trials()) > number
        and any(a.state is AllocationState.RUNNING for a in house.attempts(house.trial(number)))
    )


def test_a_submitted_experiment_runs_and_its_node_leaves(house: House) -> None:
    house.submit()
    house.run(until=house.at_rest)
    assert house.experiment().state is ExperimentState.COMPLETED
    assert [trial.state for trial in house.trials()] == [TrialState.COMPLETED]
    assert house.pool.calls.count(("launch", house.pool.calls[0][1])) == 1
    assert is_idle(house.store)


def test_a_search_runs_as_many_at_once_as_it_may(tmp_path: Path) -> None:
    house = House(tmp_path, slots=4)
    house.submit(**GRID)
    seen = 0
    for _ in range(60):
        house.turn()
        seen = max(seen, len(house.store.live(Allocation)))
    assert house.over()
    assert seen == 2
    assert [trial.hparams for trial in house.trials()] == [{"x": 1}, {"x": 2}, {"x": 3}]


def test_a_search_of_many_trials_is_created_in_several_commits(tmp_path: Path) -> None:
    house = House(tmp_path, slots=1)
    house.submit(
        searcher={"name": "random", "max_trials": 250, "max_concurrent_trials": 0},
        hyperparameters={"x": {"type": "double", "minval": 0, "maxval": 1}},
    )
    house.settle()
    trials = house.trials()
    assert len(trials) == 250
    assert len({trial.request for trial in trials}) == 250
    assert [trial.number for trial in trials] == list(range(250))


def test_two_experiments_of_one_id_in_two_stores_keep_their_own_settings(house: House) -> None:
    first = house.submit(max_restarts=1)
    second = house.submit(max_restarts=2).model_copy(update={"id": first.id})
    assert [config_of(each).max_restarts for each in (first, second, first)] == [1, 2, 1]


def test_a_crash_is_tried_again_after_a_pause_and_counted(house: House) -> None:
    house.script = lambda trial, allocation, ran: CRASHED if ran >= 1 else None
    house.submit(max_restarts=2)
    house.run(until=house.over)
    trial = house.trial()
    assert (trial.state, trial.restarts, trial.attempts) == (TrialState.FAILED, 3, 3)
    assert trial.failure is not None
    assert trial.failure.kind == "ValueError"
    assert "max_restarts is 2" in trial.reason.text
    assert house.experiment().state is ExperimentState.FAILED
    ended = [a.ended for a in house.attempts(trial)]
    created = [a.created for a in house.attempts(trial)]
    waits = [after - (before or 0) for before, after in zip(ended, created[1:], strict=False)]
    assert waits == sorted(waits)


def test_a_waiting_trial_says_that_it_backs_off(house: House) -> None:
    house.script = lambda trial, allocation, ran: CRASHED if ran >= 1 else None
    house.submit(max_restarts=9)
    house.run(until=lambda: house.trials() != [] and house.trial().restarts == 4)
    trial = house.trial()
    assert trial.state is TrialState.WAITING
    assert trial.wait is not None
    assert trial.wait.code == "backing-off"
    assert trial.wait.text == (
        "ValueError: no; restart 4 of 9; it starts again after a pause of 4 s"
    )


def test_infrastructure_failures_never_count_and_slow_down(house: House) -> None:
    house.script = lambda trial, allocation, ran: (
        INFRASTRUCTURE if allocation.attempt <= 2 else COMPLETED
    )
    house.submit(max_restarts=0)
    house.run(until=house.over)
    assert house.trial().restarts == 0
    assert house.trial().attempts == 3
    assert house.trial().state is TrialState.COMPLETED


def test_a_node_on_which_all_fails_is_avoided(tmp_path: Path) -> None:
    house = House(tmp_path, nodes=2)
    bad: list[str] = []

    def script(trial: Trial, allocation: Allocation, ran: float) -> Exit | None:
        if not bad:
            bad.append(allocation.shares[0].node)
        return INFRASTRUCTURE if allocation.shares[0].node in bad else COMPLETED

    house.script = script
    house.submit()
    house.run(200, until=house.over)
    trial = house.trial()
    assert trial.blocked_nodes == (bad[0],)
    assert trial.attempts == FAILURES_TO_BLOCK + 1
    assert trial.state is TrialState.COMPLETED


def test_invalid_hyperparameters_fail_the_trial_and_are_replaced(house: House) -> None:
    house.script = lambda trial, allocation, ran: INVALID if trial.number == 0 else COMPLETED
    house.submit(
        searcher={"name": "random", "max_trials": 2},
        hyperparameters={"x": {"type": "double", "minval": 0, "maxval": 1}},
    )
    house.run(until=house.over)
    assert [t.state for t in house.trials()] == [
        TrialState.FAILED,
        TrialState.COMPLETED,
        TrialState.COMPLETED,
    ]
    assert house.trial().reason.code == "invalid_hp"
    assert house.trial().restarts == 0
    assert house.experiment().state is ExperimentState.COMPLETED


def test_a_trial_that_stops_itself_is_a_success(house: House) -> None:
    house.script = lambda trial, allocation, ran: Exit(kind=ExitKind.STOPPED)
    house.submit()
    house.run(until=house.over)
    assert house.trial().state is TrialState.STOPPED
    assert house.experiment().state is ExperimentState.COMPLETED


# --- losing nodes --------------------------------------------------------------------------------


def test_a_dead_node_loses_its_work_at_once_and_fences_it(house: House) -> None:
    house.script = lambda trial, allocation, ran: (
        DIE if allocation.attempt == 1 and ran >= 1 else COMPLETED if ran >= 3 else None
    )
    house.submit()
    house.run(until=running(house))
    first = house.attempts(house.trial())[0]
    house.run(until=lambda: house.attempts(house.trial())[0].state is AllocationState.LOST)
    assert house.trial().token > first.token
    assert house.store.get(Lease, first.shares[0].node).revoked
    house.run(until=house.at_rest)
    trial = house.trial()
    assert (trial.state, trial.restarts, trial.attempts) == (TrialState.COMPLETED, 0, 2)
    assert house.store.get(Node, first.shares[0].node).state is NodeState.GONE


def test_a_silent_node_keeps_its_work_for_the_length_of_its_lease(house: House) -> None:
    house.script = forever
    house.submit()
    house.run(until=running(house))
    node = house.store.live(Node)[0].id
    house.silent.add(node)
    house.run(29)
    assert house.attempts(house.trial())[0].state is AllocationState.RUNNING
    house.run(5)
    assert house.attempts(house.trial())[0].state is AllocationState.LOST
    assert ("terminate", node) in house.pool.calls
    house.script = lambda trial, allocation, ran: COMPLETED
    house.run(until=house.at_rest)
    assert house.trial().attempts == 2


def test_unknown_is_not_dead_but_the_fence_does_not_wait(house: House) -> None:
    house.script = forever
    house.submit()
    house.run(until=running(house))
    house.pool.unclear = True
    house.run(60)
    assert house.trial().attempts == 1
    node = house.store.live(Node)[0].id
    house.silent.add(node)
    house.run(32)
    assert house.attempts(house.trial())[0].state is AllocationState.LOST
    assert house.store.get(Node, node).gone is None, "gone only when the pool says dead"
    house.pool.unclear = False
    house.run(5)
    assert house.store.get(Node, node).gone is not None


def test_a_new_runner_waits_the_whole_lease_once_more(house: House) -> None:
    house.script = forever
    house.submit()
    house.run(until=running(house))
    house.silent.add(house.store.live(Node)[0].id)
    house.run(20)
    house.runner = house.new_runner()
    house.run(29)
    assert house.trial().state is TrialState.RUNNING
    house.run(4)
    assert house.attempts(house.trial())[0].state is AllocationState.LOST


def test_a_node_that_never_registers_is_ended_and_asked_for_ever_more_rarely(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "agents", lambda: None)
    house.submit()
    house.run(1000)
    launches = [id for what, id in house.pool.calls if what == "launch"]
    assert 3 <= len(launches) <= 8
    trial = house.trial()
    assert trial.wait is not None
    assert trial.wait.code in ("no-node", "node-coming")
    house.check()


def test_a_pool_that_says_no_is_asked_ever_more_rarely_and_quoted(house: House) -> None:
    house.pool.refusal = "InsufficientInstanceCapacity"
    house.submit()
    house.run(300)
    launches = [id for what, id in house.pool.calls if what == "launch"]
    assert 5 <= len(launches) <= 9
    trial = house.trial()
    assert trial.wait is not None
    assert "InsufficientInstanceCapacity" in trial.wait.text
    assert trial.wait_until is not None
    house.pool.refusal = ""
    house.run(400, until=house.at_rest)
    assert house.trial().state is TrialState.COMPLETED


def test_a_lost_trial_that_was_to_be_paused_is_paused(house: House) -> None:
    house.script = forever
    house.deaf = True
    experiment = house.submit()
    house.run(until=running(house))
    pause(house.ws, experiment.id, clock=house.clock)
    house.pool.die(house.store.live(Node)[0].id)
    house.run(5)
    assert house.trial().state is TrialState.PAUSED


# --- what people want ----------------------------------------------------------------------------


def test_pause_and_resume_without_a_step_lost(house: House) -> None:
    experiment = house.submit()
    house.script = forever
    house.run(until=running(house))
    pause(house.ws, experiment.id, clock=house.clock)
    assert house.attempts(house.trial())[0].state is AllocationState.DRAINING
    house.run(5)
    assert house.trial().state is TrialState.PAUSED
    assert house.experiment().state is ExperimentState.PAUSED
    house.run(20)
    assert is_idle(house.store), "nothing runs while all is paused, and the node has left"
    resume(house.ws, experiment.id, clock=house.clock)
    house.script = lambda trial, allocation, ran: COMPLETED
    house.run(until=house.at_rest)
    assert house.trial().state is TrialState.COMPLETED
    assert house.trial().attempts == 2


def test_a_paused_experiment_that_waits_does_not_start(house: House) -> None:
    experiment = house.submit()
    pause(house.ws, experiment.id, clock=house.clock)
    house.run(10)
    assert house.trial().state is TrialState.WAITING
    assert house.trial().wait is not None
    assert house.trial().wait.code == "experiment-paused"  # type: ignore[union-attr]
    assert house.pool.calls == []
    assert is_idle(house.store)
    resume(house.ws, experiment.id, clock=house.clock)
    house.run(until=house.over)


def test_a_trial_that_waits_can_be_held_and_let_go(house: House) -> None:
    house.submit()
    house.settle()
    pause(house.ws, house.trial().id, clock=house.clock)
    house.run(10)
    assert (house.trial().state, house.trial().attempts) == (TrialState.WAITING, 0)
    resume(house.ws, house.trial().id, clock=house.clock)
    house.run(until=house.over)
    assert house.trial().state is TrialState.COMPLETED


def test_resuming_while_it_still_drains_lets_it_wait_again(house: House) -> None:
    house.script = forever
    house.deaf = True
    experiment = house.submit()
    house.run(until=running(house))
    pause(house.ws, experiment.id, clock=house.clock)
    house.run(2)
    resume(house.ws, experiment.id, clock=house.clock)
    house.deaf = False
    house.script = lambda trial, allocation, ran: COMPLETED
    house.run(until=house.over)
    assert house.trial().attempts == 2


def test_a_drain_that_takes_too_long_is_killed(house: House) -> None:
    house.script = forever
    house.deaf = True
    experiment = house.submit(drain_grace=20.0)
    house.run(until=running(house))
    cancel(house.ws, experiment.id, clock=house.clock)
    house.run(30)
    drain = house.attempts(house.trial())[0].drain
    assert drain is not None
    assert drain.cause is DrainCause.CANCEL
    house.run(15)
    drain = house.attempts(house.trial())[0].drain
    assert drain is not None
    assert drain.cause is DrainCause.KILL
    assert house.trial().state is TrialState.CANCELLED


@pytest.mark.parametrize("end", [cancel, kill])
def test_cancelling_ends_what_runs_what_waits_and_what_is_paused(tmp_path: Path, end: Any) -> None:
    house = House(tmp_path, script=forever)
    experiment = house.submit(
        searcher={"name": "grid"},
        hyperparameters={"x": {"type": "categorical", "vals": [1, 2, 3]}},
    )
    house.run(until=running(house))
    pause(house.ws, house.trial(0).id, clock=house.clock)
    house.run(until=running(house, 1))
    states = [trial.state for trial in house.trials()]
    assert states == [TrialState.PAUSED, TrialState.RUNNING, TrialState.WAITING]
    end(house.ws, experiment.id, clock=house.clock)
    asked = house.attempts(house.trial(1))[0].drain
    assert asked is not None
    assert asked.cause.value == end.__name__
    house.run(until=house.at_rest)
    assert {trial.state for trial in house.trials()} == {TrialState.CANCELLED}
    assert house.experiment().state is ExperimentState.CANCELLED
    end(house.ws, experiment.id, clock=house.clock)


def test_a_wish_that_was_written_only_halfway_is_carried_out(house: House) -> None:
    """The command died after writing the experiment, before it reached the trial."""
    house.script = forever
    experiment = house.submit()
    house.run(until=running(house))
    before = house.trial()
    pause(house.ws, experiment.id, clock=house.clock)
    now = house.trial()
    house.store.commit(Put(before.model_copy(update={"version": now.version})))
    house.run(5)
    assert house.trial().state is TrialState.PAUSED


def test_a_better_trial_takes_the_place_of_a_worse_one(tmp_path: Path) -> None:
    house = House(tmp_path, preemption=True, script=forever)
    worse = house.submit(resources={"priority": 50})
    house.run(until=running(house))
    house.clock.advance(1)
    better = house.submit(resources={"priority": 1})
    house.run(until=lambda: bool(house.trials(better)) and running(house)())
    assert house.trials(worse)[0].state is TrialState.WAITING
    assert house.trials(worse)[0].reason.code == "preempt"
    assert house.trials(worse)[0].restarts == 0


def test_a_node_that_was_told_to_leave_and_does_not_is_ended(house: House) -> None:
    house.stubborn = True
    house.submit()
    house.run(until=house.over)
    node = house.store.live(Node)[0].id
    house.run(40)
    assert house.store.get(Node, node).state is NodeState.DRAINING
    assert ("terminate", node) not in house.pool.calls
    house.run(until=house.at_rest)
    assert ("terminate", node) in house.pool.calls


def test_reading_costs_what_is_live_and_resting_writes_nothing(house: House) -> None:
    house.script = forever
    for _ in range(3):
        house.submit()
    house.run(20)
    before = house.store.newest_cursor()
    versions = {t.id: t.version for t in house.store.live(Trial)}
    house.settle()
    assert house.store.newest_cursor() == before
    assert {t.id: t.version for t in house.store.live(Trial)} == versions


def test_an_experiment_that_cannot_be_read_does_not_stop_the_others(house: House) -> None:
    broken = house.submit()
    settings = {**broken.config, "searcher": {"name": "of a newer burst"}}
    house.store.commit(Put(broken.model_copy(update={"version": 1, "config": settings})))
    good = house.submit()
    house.run(until=lambda: is_terminal(house.store.get(Experiment, good.id).state))
    assert house.store.get(Experiment, broken.id).state is ExperimentState.ACTIVE


def test_checkpoints_are_removed_while_the_trial_runs(house: House) -> None:
    house.script = forever
    house.submit(checkpoints={"keep": {"trial_best": 1, "trial_latest": 1}})
    house.run(until=running(house))
    trial = house.trial()
    for number, loss in enumerate([0.3, 0.1, 0.5, 0.4]):
        made = Checkpoint(
            id=new_id("ckpt", house.clock),
            trial=trial.id,
            experiment=trial.experiment,
            attempt=1,
            batches=number + 1,
            created=house.clock.now(),
            url=house.ws.blobs.url,
            manifest=manifest_key(trial.id, f"c{number}"),
            size=1,
            metrics={"validation_loss": loss},
        )
        newest = house.trial().model_copy(update={"checkpoint": made.id})
        house.store.commit(Put(made), Put(newest))
        house.run(2)
    there = house.store.children(Checkpoint, trial.id)
    assert [each.batches for each in there if each.deleted is None] == [2, 4]
    house.script = lambda trial, allocation, ran: COMPLETED
    house.run(until=house.at_rest)
    there = house.store.children(Checkpoint, trial.id)
    assert [each.batches for each in there if each.deleted is None] == [2, 4]


def test_a_machine_that_is_unfit_is_tried_ever_more_slowly_and_its_problem_is_told(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    house.unfit = "only 1 MiB are free"
    house.submit()
    house.run(120)
    launches = [id for what, id in house.pool.calls if what == "launch"]
    assert 3 <= len(launches) <= 7
    wait = house.trial().wait
    assert wait is not None
    assert "only 1 MiB are free" in wait.text
    house.unfit = ""
    house.run(400, until=house.over)
