"""The runner's loop, and all of it with real processes."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from burst.core.config.load import parse_experiment
from burst.core.errors import Unreachable
from burst.core.model import Allocation, Experiment, Node, Trial
from burst.core.states import AllocationState, ExperimentState, TrialState
from burst.core.workspace import Workspace, open_workspace
from burst.runner.commands import kill, pause, resume, submit
from burst.runner.loop import Runner, is_idle
from burst.runner.pools import open_pools
from tests.runner.house import House, forever

# --- by hand -------------------------------------------------------------------------------------


def test_the_loop_goes_on_until_it_is_told(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.submit()

    def until() -> bool:
        house.agents()
        return house.over()

    house.runner.run(until)
    assert house.experiment().state is ExperimentState.COMPLETED


def test_a_store_that_does_not_answer_is_asked_ever_more_rarely(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.submit()
    asked: list[float] = []

    class Away:
        def live(self, *_: object) -> Any:
            asked.append(house.clock.now())
            raise Unreachable("the store is away")

        def __getattr__(self, name: str) -> Any:
            return getattr(house.store, name)

    runner = house.new_runner(Away())

    def give_up(seconds: float) -> None:
        house.clock.advance(seconds)
        if len(asked) == 8:
            runner.stop()

    house.clock.sleep = give_up  # type: ignore[method-assign]
    runner.run()
    gaps = [after - before for before, after in itertools.pairwise(asked)]
    assert gaps == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0]


def test_a_store_that_was_away_for_longer_than_a_lease_costs_no_node(tmp_path: Path) -> None:
    """The runner is the first to reach it again; no agent could have renewed its lease."""
    house = House(tmp_path, script=forever)
    house.submit()
    back = 0.0

    class Away:
        def newest_cursor(self) -> str:
            if house.clock.now() < back:
                raise Unreachable("the store is away")
            return house.store.newest_cursor()

        def __getattr__(self, name: str) -> Any:
            return getattr(house.store, name)

    away: Any = Away()
    house.runner = house.new_runner(away)
    house.run(10)
    house.settle()
    back = house.clock.now() + 120
    house.runner.run(until=lambda: True)
    assert house.clock.now() >= back
    (allocation,) = house.store.live(Allocation)
    assert allocation.state is AllocationState.RUNNING
    assert [node.terminating for node in house.store.live(Node)] == [None]


def test_one_reconciler_that_fails_does_not_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path)
    house.submit()
    house.run(until=house.over)
    second = house.submit()

    def broken(*_: object) -> None:
        raise RuntimeError("this pool is broken")

    monkeypatch.setattr(house.pool, "observe", broken)
    house.run(until=lambda: house.experiment().id == second.id and house.over())


# --- real ----------------------------------------------------------------------------------------

SOURCE = """
name: script
entrypoint: [sh, -c, {script!r}]
searcher: {{name: single, metric: loss}}
drain_grace: 3s
"""


@pytest.fixture
def ws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.setenv("BURST_LOCAL_SLOTS", "2")
    ws = open_workspace(cwd=tmp_path)
    yield ws
    pool = open_pools(ws)["local"]
    for node in ws.store.live(Node):
        pool.terminate(node)


def submitted(ws: Workspace, folder: Path, script: str) -> Experiment:
    code = folder / "code"
    code.mkdir(exist_ok=True)
    (code / "readme").write_text("nothing")
    loaded = parse_experiment(SOURCE.format(script=script), "exp.yaml")
    return submit(ws, loaded, code, owner="me").experiment


def run_until(ws: Workspace, holds: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    runner = Runner(ws)

    def until() -> bool:
        assert time.monotonic() < deadline, "it does not come about"
        return holds()

    runner.run(until)
    assert holds()


def state_of(ws: Workspace, experiment: Experiment) -> ExperimentState:
    return ws.store.get(Experiment, experiment.id).state


def only_trial(ws: Workspace, experiment: Experiment) -> Trial:
    return ws.store.children(Trial, experiment.id)[0]


def is_running(ws: Workspace) -> Callable[[], bool]:
    return lambda: any(a.state is AllocationState.RUNNING for a in ws.store.live(Allocation))


def test_a_submitted_script_runs_on_this_machine(ws: Workspace, tmp_path: Path) -> None:
    experiment = submitted(ws, tmp_path, f"echo done > {tmp_path}/out")
    run_until(ws, lambda: state_of(ws, experiment) is ExperimentState.COMPLETED)
    assert (tmp_path / "out").read_text() == "done\n"
    assert only_trial(ws, experiment).restarts == 0


def test_a_script_that_fails_is_tried_again_and_then_failed(ws: Workspace, tmp_path: Path) -> None:
    code = f"echo x >> {tmp_path}/tries; test $(wc -l < {tmp_path}/tries) -ge 3"
    experiment = submitted(ws, tmp_path, code)
    run_until(ws, lambda: state_of(ws, experiment) is ExperimentState.COMPLETED)
    assert only_trial(ws, experiment).restarts == 2
    assert (tmp_path / "tries").read_text() == "x\n" * 3


def test_an_agent_that_is_killed_costs_nothing_but_time(ws: Workspace, tmp_path: Path) -> None:
    once = f"echo x >> {tmp_path}/tries; test $(wc -l < {tmp_path}/tries) -ge 2 || sleep 600"
    experiment = submitted(ws, tmp_path, once)
    run_until(ws, lambda: is_running(ws)() and (tmp_path / "tries").exists())
    (node,) = ws.store.live(Node)
    os.kill(int(node.handle["pid"]), signal.SIGKILL)
    run_until(ws, lambda: state_of(ws, experiment) is ExperimentState.COMPLETED)
    trial = only_trial(ws, experiment)
    assert (trial.attempts, trial.restarts) == (2, 0)
    first = ws.store.children(Allocation, trial.id)[0]
    assert first.state is AllocationState.LOST
    assert trial.token > first.token + 1


def test_pause_resume_and_kill_reach_what_runs(ws: Workspace, tmp_path: Path) -> None:
    experiment = submitted(ws, tmp_path, "sleep 600")
    run_until(ws, is_running(ws))
    pause(ws, experiment.id)
    run_until(ws, lambda: only_trial(ws, experiment).state is TrialState.PAUSED)
    assert ws.store.live(Allocation) == []
    resume(ws, experiment.id)
    run_until(ws, is_running(ws))
    kill(ws, experiment.id)
    run_until(ws, lambda: state_of(ws, experiment) is ExperimentState.CANCELLED)
    assert only_trial(ws, experiment).state is TrialState.CANCELLED


def test_a_runner_that_is_killed_is_taken_over_by_the_next(ws: Workspace, tmp_path: Path) -> None:
    experiment = submitted(ws, tmp_path, f"sleep 1; echo x >> {tmp_path}/tries")
    command = [sys.executable, "-m", "burst.runner"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not is_running(ws)():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
    run_until(ws, lambda: state_of(ws, experiment) is ExperimentState.COMPLETED)
    assert (tmp_path / "tries").read_text() == "x\n"
    assert only_trial(ws, experiment).attempts == 1


def test_the_program_leaves_on_sigterm_and_when_idle(ws: Workspace, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "burst.runner"]
    idle = subprocess.run(
        [*command, "--until-idle"], cwd=tmp_path, timeout=60, check=False, capture_output=True
    )
    assert idle.returncode == 0
    assert is_idle(ws.store)
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.terminate()
        assert process.wait(10) == 0
