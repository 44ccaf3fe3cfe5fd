"""What a trial tells the searcher of its validations, as its record has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.clock import ManualClock
from burst.core.config.experiment import ExperimentConfig
from burst.core.errors import ConfigError, Unreachable
from burst.core.length import Unit
from burst.core.metrics import VALIDATED
from burst.core.model import Judged, Lengths, Trial
from burst.core.store.memory import MemoryStore
from burst.core.store.port import Put, Write
from burst.harness.core_api import TrainApi
from burst.harness.progress import Progress, StoreSink
from burst.harness.searching import Search, noted
from burst.harness.session import Session
from burst.harness.trial.goal import Goal

TRIAL = "exp-a.t0000"


def trial() -> Trial:
    fields: dict[str, Any] = {"id": TRIAL, "state_since": 0.0, "experiment": "exp-a", "number": 0}
    return Trial(**fields, seed=0, slots=1, pools=(), created=0.0, queued=0.0, token=1)


def search_of(**searcher: Any) -> Search | None:
    asked = {"name": "adaptive_asha", "max_trials": 4, "metric": "eval_loss", **searcher}
    config = {"name": "n", "entrypoint": "a:B", "searcher": asked,
              "reproducibility": {"experiment_seed": 1}}  # fmt: skip
    return Search.of(ExperimentConfig.model_validate(config))


@pytest.mark.parametrize(
    ("searcher", "length"),
    [
        ({"max_length": "9ba"}, 40.0),
        ({"max_length": "9ep"}, 2.5),
        ({"max_length": "9rec"}, 320.0),
        ({"max_length": "9h"}, 7.5),
        ({"time_metric": "tokens", "max_time": 9}, 1234.0),
    ],
)
def test_a_validation_s_length_is_in_what_the_search_counts_in(
    searcher: Mapping[str, Any], length: float
) -> None:
    search = search_of(**searcher)
    assert search is not None
    lengths = Lengths(batches=40, records=320, epochs=2.5, seconds=7.5)
    judged = search.judged(40, {"eval_loss": 0.5, "tokens": 1234.0}, lengths)
    assert judged == Judged(batches=40, length=length, metric=0.5)


def test_a_searcher_that_does_not_halve_is_told_nothing() -> None:
    assert search_of(name="random", max_trials=3) is None


def test_a_validation_without_the_metric_is_not_for_the_searcher() -> None:
    assert Search("eval_loss", Unit.BATCHES).judged(4, {"other": 1.0}, Lengths()) is None


def test_a_time_metric_that_is_missing_names_those_that_are_there() -> None:
    with pytest.raises(ConfigError, match=r"'tokens'.*there is eval_loss, eval_runtime"):
        Search("eval_loss", "tokens").judged(4, {"eval_runtime": 1.0, "eval_loss": 1.0}, Lengths())


def test_epochs_of_a_script_that_does_not_count_them_are_asked_for() -> None:
    with pytest.raises(ConfigError, match="counts in epochs"):
        Search("eval_loss", Unit.EPOCHS).judged(4, {"eval_loss": 1.0}, Lengths(batches=4))


def _sink(store: MemoryStore) -> tuple[Progress, StoreSink]:
    progress = Progress(ManualClock())
    progress.metric, progress.search = "eval_loss", Search("eval_loss", Unit.BATCHES)
    return progress, StoreSink(store, TRIAL, 1, progress)


def _batches(store: MemoryStore) -> list[int]:
    return [each.batches for each in store.get(Trial, TRIAL).untold]


def test_a_validation_is_stored_once_with_an_event_that_wakes_runners() -> None:
    store = MemoryStore()
    store.commit(Put(trial()))
    progress, sink = _sink(store)
    for batches in (4, 8):
        progress.reported("training", batches, {"eval_loss": 9.0})
        progress.reported("validation", batches, {"eval_loss": 1 / batches})
    for _ in range(3):
        sink.send([], [])
    assert _batches(store) == [4, 8]
    names = [event.name for event in store.events().events]
    assert names.count(VALIDATED) == 1
    assert "0.125 at batch 8" in store.events().events[-1].text


def test_a_commit_whose_answer_was_lost_tells_nothing_twice() -> None:
    store = MemoryStore()
    store.commit(Put(trial()))
    progress, sink = _sink(store)
    progress.reported("validation", 4, {"eval_loss": 1.0})
    commit = store.commit

    def lost(*writes: Write) -> None:
        commit(*writes)
        raise Unreachable("no answer")

    store.commit = lost  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        sink.send([], [])
    store.commit = commit  # type: ignore[method-assign]
    sink.send([], [])
    assert _batches(store) == [4]


def test_an_attempt_that_trains_again_tells_only_what_is_beyond() -> None:
    store = MemoryStore()
    store.commit(Put(trial()))
    for reported in ((4, 8, 12), (8, 12, 16)):
        progress, sink = _sink(store)
        for batches in reported:
            progress.reported("validation", batches, {"eval_loss": 1.0})
            sink.send([], [])
        assert progress.judged() == ()
    assert _batches(store) == [4, 8, 12, 16]


@given(
    attempts=st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=5),
    moved=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_whatever_attempts_report_each_length_is_told_once_and_in_order(
    attempts: list[list[int]], moved: list[bool]
) -> None:
    record, told = trial(), []
    for batches, moves in zip(attempts, moved, strict=False):
        judged = [Judged(batches=each, length=each, metric=1.0) for each in batches]
        record = noted(noted(record, judged), judged)
        if moves:
            told += [each.batches for each in record.untold]
            record = record.model_copy(update={"untold": ()})
    told += [each.batches for each in record.untold]
    assert told == sorted(set(told))
    assert record.judged == len(told)
    everything = [each for batches in attempts for each in batches]
    assert max(told, default=-1) == max(everything, default=-1)


def test_a_script_without_the_metric_hears_which_ones_it_reported() -> None:
    session = Session()
    api = TrainApi(session, Goal(metric="eval_loss", needed=True))
    with pytest.raises(ConfigError, match="this validation reported accuracy, loss"):
        api.report_validation_metrics(1, {"loss": 1.0, "accuracy": 0.5})
    TrainApi(session, Goal(metric="eval_loss")).report_validation_metrics(2, {"loss": 1.0})


def test_a_script_that_says_what_an_epoch_is_has_lengths_in_epochs() -> None:
    session = Session()
    api = TrainApi(session, Goal())
    api.epoch, api.batch = 4, 8
    api.report_progress(10)
    assert session.progress.measure() == Lengths(batches=10, records=80, epochs=2.5)
