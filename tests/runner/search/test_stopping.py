"""A search that stops trials, from a validation in a trial's record to the trial that takes its
place: each is told once and in order, whoever reconciles and wherever a runner ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burst.core.model import Allocation, Exit, Experiment, Judged, Trial
from burst.core.states import ExperimentState, TrialState
from burst.core.store import update
from burst.core.store.port import MAX_RECORD_BYTES, Fence, Put, Write
from burst.harness.searching import MOST_UNTOLD, Search, noted
from burst.runner.commands import pause, resume
from burst.runner.search import make_searcher
from burst.runner.search.book import Book
from tests.runner.house import COMPLETED, CRASHED, DIE, House, config_of

TOP = 9
SPACE = {"loss": {"type": "double", "minval": 0.0, "maxval": 1.0}}


class Ended(BaseException):
    """The runner's process is gone."""


class Told:
    """Notes, of every commit, the validations that it brings into a book."""

    def __init__(self, house: House) -> None:
        self.heard: list[tuple[str, int]] = []
        self.fail_at = 0
        self.after = False
        self.count = 0
        self._waiting: set[tuple[str, int]] = set()
        self._commit = house.store.commit
        house.store.commit = self.commit  # type: ignore[method-assign]

    def commit(self, *writes: Write) -> None:
        books = [w.record for w in writes if isinstance(w, Put)]
        found = next((each for each in books if isinstance(each, Experiment)), None)
        fails = False
        if found is not None and found.version:
            self.count += 1
            fails = self.count == self.fail_at
        if fails and not self.after:
            raise Ended
        self._commit(*writes)
        if found is not None:
            self._note(found)
        if fails:
            raise Ended

    def _note(self, experiment: Experiment) -> None:
        inbox = Book.of(experiment).inbox
        here = [(each.request, each.number) for each in inbox if each.event == "validated"]
        self.heard += [each for each in here if each not in self._waiting]
        self._waiting = set(here)


def report(house: House, trial: Trial, batches: int, metric: float) -> None:
    """As a harness stores a validation: under the trial's fence, and once."""
    judged = Judged(batches=batches, length=float(batches), metric=metric)

    def change(found: Trial) -> list[Write]:
        changed = noted(found, [judged])
        return [] if changed == found else [Fence(found.id, trial.token), Put(changed)]

    update(house.store, Trial, trial.id, change)


def curves(house: House, *, faulty: bool = False) -> Callable[..., Exit | str | None]:
    """Trials that validate every second; some of them lose their node or crash on the way."""

    def script(trial: Trial, allocation: Allocation, ran: float) -> Exit | str | None:
        batches = int(ran)
        if batches:
            report(house, trial, batches, trial.hparams["loss"] + 1 / batches)
        if faulty and allocation.attempt == 1 and trial.number in (0, 2) and batches == 2:
            return DIE if trial.number else CRASHED
        return COMPLETED if batches >= TOP else None

    return script


def searching(folder: Path, **fields: Any) -> tuple[House, Told]:
    house = House(folder, slots=2)
    house.script = curves(house)
    told = Told(house)
    asked = {"max_trials": 6, "divisor": 3, "max_concurrent_trials": 2, "mode": "aggressive"}
    searcher = {"name": "adaptive_asha", "max_length": f"{TOP}ba", **asked, **fields}
    house.submit(searcher=searcher, hyperparameters=SPACE)
    return house, told


def check(house: House, told: Told) -> None:
    """What holds however it came about."""
    trials = house.trials()
    assert house.experiment().state is ExperimentState.COMPLETED
    assert {trial.state for trial in trials} <= {TrialState.COMPLETED, TrialState.STOPPED}
    assert len(trials) == 6
    best = min(trials, key=lambda trial: float(trial.hparams["loss"]))
    assert best.state is TrialState.COMPLETED
    assert not any(trial.untold for trial in trials)
    assert max(Counter(told.heard).values()) == 1, "a validation was told twice"
    for trial in trials:
        numbers = [number for request, number in told.heard if request == trial.request]
        assert numbers == list(range(1, trial.judged + 1))


def test_bad_trials_stop_at_rungs_and_the_best_reaches_the_top(tmp_path: Path) -> None:
    house, told = searching(tmp_path)
    house.run(120, until=house.over)
    check(house, told)
    stopped = [trial for trial in house.trials() if trial.state is TrialState.STOPPED]
    assert stopped
    for trial in stopped:
        assert trial.reason.code == "searcher"
        assert trial.reason.text.startswith("rung ")
        assert "go" in trial.reason.text
        assert trial.judged < TOP


def test_a_stop_gives_the_slot_to_the_next_trial_at_once(tmp_path: Path) -> None:
    house, _ = searching(tmp_path)
    ends: dict[str, float] = {}
    starts: dict[str, float] = {}
    while not house.over():
        house.turn()
        for trial in house.trials():
            if trial.state is TrialState.STOPPED:
                ends.setdefault(trial.id, house.clock.now())
            if trial.state is TrialState.RUNNING:
                starts.setdefault(trial.id, house.clock.now())
    first_stop = min(ends.values())
    later = [at for at in starts.values() if at >= first_stop]
    assert min(later) - first_stop <= 1.0


def test_attempts_that_train_again_tell_nothing_twice(tmp_path: Path) -> None:
    house, told = searching(tmp_path)
    house.script = curves(house, faulty=True)
    house.run(300, until=house.over)
    check(house, told)


def test_two_runners_at_once_tell_each_validation_once(tmp_path: Path) -> None:
    house, told = searching(tmp_path)
    other = house.new_runner()
    for _ in range(200):
        house.turn()
        other.step()
        if house.over():
            break
    check(house, told)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_runner_that_ends_at_any_write_of_the_book_loses_nothing(
    tmp_path: Path, after: bool
) -> None:
    for point in range(1, 200):
        house, told = searching(tmp_path, max_trials=6)
        told.fail_at, told.after = point, after
        for _ in range(200):
            try:
                house.turn()
            except Ended:
                house.runner = house.new_runner()
            if house.over():
                break
        check(house, told)
        if told.count < point:
            return
    raise AssertionError("there are more writes than points")


def test_a_pause_between_loses_nothing(tmp_path: Path) -> None:
    house, told = searching(tmp_path)
    house.run(4)
    pause(house.ws, house.experiment().id, clock=house.clock)
    house.run(6)
    resume(house.ws, house.experiment().id, clock=house.clock)
    house.run(200, until=house.over)
    check(house, told)


def test_what_piles_up_while_no_runner_comes_by_fits_and_keeps_the_newest() -> None:
    fields = {"id": "exp-a.t0000", "state_since": 0.0, "experiment": "exp-a", "number": 0}
    trial = Trial(**fields, seed=0, slots=1, pools=(), created=0.0, queued=0.0)
    for batches in range(1, 1000):
        judged = Judged(batches=batches, length=batches / 7, metric=1 / batches)
        trial = noted(trial, [judged])
        assert noted(trial, [judged]) == trial
    assert len(trial.untold) == MOST_UNTOLD
    assert trial.untold[-1].batches == 999
    assert trial.judged == 999
    assert len(trial.model_dump_json()) < MAX_RECORD_BYTES / 10
    book = Book().hear(trial)
    assert [entry.number for entry in book.inbox] == list(range(800, 1000))


@pytest.mark.parametrize(
    "searcher",
    [
        {"name": "single"},
        {"name": "grid"},
        {"name": "random", "max_trials": 3},
        {"name": "asha", "num_rungs": 2, "max_trials": 3, "max_length": "9ba"},
        {"name": "adaptive_asha", "max_trials": 3, "max_length": "9ba"},
    ],
)
def test_a_trial_tells_validations_to_those_searchers_that_want_them(
    searcher: dict[str, Any],
) -> None:
    config = config_of(searcher=searcher)
    assert (Search.of(config) is not None) == make_searcher(config).wants_validations


def test_a_search_that_wants_no_validations_hears_of_none(tmp_path: Path) -> None:
    house = House(tmp_path, slots=2)
    told = Told(house)
    house.submit(searcher={"name": "random", "max_trials": 2}, hyperparameters=SPACE)
    house.run(60, until=house.over)
    assert not told.heard


def test_a_file_that_is_wrong_ends_the_search_with_what_the_first_trial_said(
    tmp_path: Path,
) -> None:
    house, _ = searching(tmp_path, max_trials=20)
    house.script = lambda trial, allocation, ran: Exit.model_validate(
        {"kind": "crashed", "failure": {"kind": "ConfigError", "message": "no metric 'x'"}}
    )
    house.run(60, until=house.over)
    assert house.experiment().state is ExperimentState.FAILED
    assert [trial.restarts for trial in house.trials()] == [1, 1]
    assert "ConfigError: no metric 'x'" in house.experiment().reason.text
