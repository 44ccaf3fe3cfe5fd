"""Trials that ended themselves early, in everything that shows how trials ended."""

from __future__ import annotations

import pytest

from burst.core.states import ExperimentState, Reason, TrialState
from tests.cli import world
from tests.cli.conftest import Burst

WHY = "EarlyStoppingCallback: eval_loss has not improved in 3 evaluations"


@pytest.fixture
def stopped(burst: Burst) -> Burst:
    """Three trials: one that stopped itself and said why, one that the searcher ended, and one
    that trained to its end."""
    own = Reason(code="early_stopping", text=WHY)
    searcher = Reason(code="searcher", text="the searcher has seen enough of it")
    world.put(
        burst.store,
        world.experiment(state=ExperimentState.COMPLETED, trials=3),
        world.training(0, state=TrialState.STOPPED, reason=own),
        world.training(1, state=TrialState.STOPPED, reason=searcher),
        world.training(2, state=TrialState.COMPLETED),
    )
    return burst


def test_the_list_of_experiments_counts_them(stopped: Burst) -> None:
    assert "3  1 early_stopping" in stopped("ls", COLUMNS="160").stdout


def test_beside_other_trials_it_has_its_word_and_no_other_has(stopped: Burst) -> None:
    shown = stopped("show", world.RUNNING, COLUMNS="200").stdout
    rows = sorted(line for line in shown.splitlines() if line.startswith("t000"))
    assert ["stopped" in row for row in rows] == [True, True, False]
    assert ["stopped  early_stopping" in row for row in rows] == [True, False, False]


def test_the_page_of_the_trial_says_why_in_words(stopped: Burst) -> None:
    assert WHY in stopped("show", f"{world.RUNNING}.t0", COLUMNS="200").stdout


def test_programs_read_the_word_and_the_words(stopped: Burst) -> None:
    found = stopped.json("show", f"{world.RUNNING}.t0")
    assert found["reason"] == {"code": "early_stopping", "text": WHY}
    assert found["state"] == "stopped"


def test_a_report_has_its_word(stopped: Burst) -> None:
    lines = stopped("report", world.RUNNING).stdout.splitlines()
    rows = sorted(line for line in lines if line.startswith("| `t000"))
    assert ["stopped `early_stopping`" in row for row in rows] == [True, False, False]
