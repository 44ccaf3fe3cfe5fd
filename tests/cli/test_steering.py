from __future__ import annotations

from pathlib import Path

import pytest

from burst.cli.commands.steer import _reached
from burst.cli.driving import is_driven
from burst.cli.submitting import prepare, submit
from burst.core.model import Experiment, Trial
from burst.core.states import ExperimentState, TrialState
from tests.cli import world
from tests.cli.conftest import Burst


@pytest.fixture
def paused(burst: Burst, tmp_path: Path) -> str:
    """An experiment that was paused before anybody began it: nothing holds a slot."""
    burst("init", str(tmp_path / "new"))
    prepared = prepare(burst.session, tmp_path / "new" / "exp.yaml", None, (), ())
    experiment = submit(burst.session, prepared).experiment
    burst("pause", experiment.id)
    return experiment.id


@pytest.mark.parametrize("verb", ["cancel", "kill"])
def test_ending_what_holds_no_slots_happens_at_once_and_leaves_no_runner(
    burst: Burst, paused: str, burst_home: Path, verb: str
) -> None:
    result = burst(verb, paused)
    assert result.stderr == f"{paused} is cancelled.\n"
    assert result.stdout == ""
    assert burst.store.get(Experiment, paused).state is ExperimentState.CANCELLED
    assert not is_driven(burst_home)


def test_pausing_what_is_paused_changes_nothing(
    burst: Burst, paused: str, burst_home: Path
) -> None:
    result = burst("pause", paused, "--wait")
    assert result.stderr == f"{paused} is paused; go on with: burst resume {paused}\n"
    assert not is_driven(burst_home)


def test_steering_what_is_over_is_refused(filled: Burst) -> None:
    for verb in ("pause", "resume", "cancel"):
        assert "already" in filled(verb, world.DONE, status=5).stderr


def test_nothing_is_done_where_one_of_the_ids_is_wrong(burst: Burst, paused: str) -> None:
    burst("cancel", paused, "exp-1m3k9zq4w0x", status=4)
    assert burst.store.get(Experiment, paused).state is ExperimentState.PAUSED


def test_the_same_commands_stand_under_the_noun(burst: Burst, paused: str) -> None:
    assert "is cancelled" in burst("experiment", "cancel", "latest").stderr


@pytest.mark.parametrize(
    ("record", "goal", "reached"),
    [
        (world.trial(state=TrialState.PAUSED), "paused", True),
        (world.trial(wanted=TrialState.PAUSED), "paused", True),
        (world.training(wanted=TrialState.PAUSED), "paused", False),
        (world.training(), "running", True),
        (world.trial(state=TrialState.COMPLETED), "paused", True),
        (world.experiment(state=ExperimentState.STOPPING), "over", False),
        (world.experiment(state=ExperimentState.CANCELLED), "over", True),
    ],
)
def test_waiting_ends_when_the_wish_has_come_true(
    burst: Burst, record: Experiment | Trial, goal: str, reached: bool
) -> None:
    assert _reached(burst.session, record, goal) is reached


@pytest.mark.parametrize(
    ("trial", "reached"),
    [
        (world.training(), False),
        (world.training(state=TrialState.STOPPING), False),
        (world.trial(), True),
        (world.training(state=TrialState.PAUSED), True),
    ],
)
def test_an_experiment_is_paused_once_no_trial_holds_slots(
    burst: Burst, trial: Trial, reached: bool
) -> None:
    experiment = world.experiment(state=ExperimentState.PAUSED)
    world.put(burst.store, experiment, trial)
    assert _reached(burst.session, experiment, "paused") is reached
