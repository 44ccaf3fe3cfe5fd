"""`burst wait` ends where nothing more happens by itself, and says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burst.cli import shapes
from burst.cli.driving import is_driven
from burst.core.model import Experiment, Trial
from burst.core.states import ExperimentState, TrialState
from burst.core.store import update
from tests.cli import world
from tests.cli.conftest import Burst
from tests.cli.test_looking import check

ID = world.RUNNING
TRIAL = f"{ID}.t0000"
PAUSED = world.experiment(state=ExperimentState.PAUSED)
ONE_BY_ONE = f"every trial of {ID} that is not over is paused; go on with: burst resume {ID}\n"


@pytest.mark.parametrize("timeout", [(), ("-t", "2h"), ("-t", "0s")])
@pytest.mark.parametrize(
    ("experiment", "trial", "told"),
    [
        (PAUSED, world.trial(state=TrialState.PAUSED),
         f"{ID} is paused; go on with: burst resume {ID}\n"),
        (PAUSED, world.trial(), f"{ID} is paused; go on with: burst resume {ID}\n"),
        (world.experiment(), world.trial(state=TrialState.PAUSED), ONE_BY_ONE),
        (world.experiment(), world.trial(wanted=TrialState.PAUSED), ONE_BY_ONE),
    ],
)  # fmt: skip
def test_an_experiment_that_is_paused_is_not_waited_for(
    burst: Burst, burst_home: Path, experiment: Experiment, trial: Trial, told: str,
    timeout: tuple[str, ...],
) -> None:  # fmt: skip
    world.put(burst.store, experiment, trial)
    assert f"burst resume {ID}" in burst("wait", ID, "-q", *timeout, status=1).stdout
    result = burst("wait", ID, "--json", *timeout, status=1)
    assert result.stderr == told
    document = json.loads(result.stdout)
    check(document, shapes.ResultJson)
    assert document["exit_code"] == 1
    assert not is_driven(burst_home)


@pytest.mark.parametrize(
    ("experiment", "trial", "told"),
    [
        (world.experiment(), world.trial(state=TrialState.PAUSED),
         f"{TRIAL} is paused; go on with: burst resume {TRIAL}\n"),
        (world.experiment(), world.trial(wanted=TrialState.PAUSED),
         f"{TRIAL} is paused; go on with: burst resume {TRIAL}\n"),
        (PAUSED, world.trial(),
         f"{TRIAL} is held, for {ID} is paused; go on with: burst resume {ID}\n"),
    ],
)  # fmt: skip
def test_a_trial_that_is_paused_is_not_waited_for(
    burst: Burst, burst_home: Path, experiment: Experiment, trial: Trial, told: str
) -> None:
    world.put(burst.store, experiment, trial, world.training(1))
    result = burst("wait", TRIAL, status=1)
    assert result.stderr == told
    assert not is_driven(burst_home)


def test_what_is_paused_while_one_waits_ends_the_wait_once_it_holds_no_slots(
    burst: Burst, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(burst.store, world.experiment(), world.training())
    store, clock = burst.store, burst.session.clock
    sleep = clock.sleep

    def pauses() -> None:
        update(store, Experiment, ID, lambda e: e.model_copy(update={"state": PAUSED.state}))

    def drains() -> None:
        change: dict[str, Any] = {"wanted": TrialState.PAUSED}
        update(store, Trial, TRIAL, lambda t: t.model_copy(update=change))

    def leaves() -> None:
        change: dict[str, Any] = {"state": TrialState.WAITING, "wanted": None}
        update(store, Trial, TRIAL, lambda t: t.model_copy(update=change))

    steps = iter([pauses, drains, leaves])

    def passing(seconds: float) -> None:
        next(steps)()
        sleep(seconds)

    monkeypatch.setattr(clock, "sleep", passing)
    monkeypatch.setattr("burst.cli.elsewhere.see_driven", lambda *_: None)
    result = burst("wait", ID, "--quiet", status=1)
    assert result.stderr == f"{ID} is paused; go on with: burst resume {ID}\n"
    assert next(steps, None) is None
    assert f"burst resume {ID}" in result.stdout


@pytest.mark.parametrize(
    "others",
    [
        (world.training(1),),
        (world.trial(1),),
        (world.trial(1, state=TrialState.STOPPING),),
    ],
)
def test_one_paused_trial_does_not_end_the_wait_for_the_others(
    burst: Burst, monkeypatch: pytest.MonkeyPatch, others: tuple[Trial, ...]
) -> None:
    monkeypatch.setattr("burst.cli.elsewhere.see_driven", lambda *_: None)
    world.put(burst.store, world.experiment(), world.trial(state=TrialState.PAUSED), *others)
    result = burst("wait", ID, "--quiet", "-t", "1s", status=1)
    assert "is not over after 1 seconds" in result.stderr


def test_a_search_that_has_something_to_add_is_waited_for(
    burst: Burst, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("burst.cli.elsewhere.see_driven", lambda *_: None)
    search = {"inbox": [{"event": "closed", "request": "r1", "how": "completed"}]}
    world.put(
        burst.store,
        world.experiment(search=search),
        world.trial(state=TrialState.PAUSED),
        world.trial(1, state=TrialState.COMPLETED),
    )
    result = burst("wait", ID, "--quiet", "-t", "1s", status=1)
    assert "is not over after 1 seconds" in result.stderr
