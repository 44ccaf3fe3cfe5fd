"""Successive halving: Determined's vectors, its defects avoided, and any order of events."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from burst.core.config.experiment import ExperimentConfig
from burst.core.errors import ConfigError
from burst.core.store.port import MAX_RECORD_BYTES
from burst.runner.search import make_searcher
from burst.runner.search.asha import HalvingSearcher
from burst.runner.search.ladder import Rung, largest, ranked, room_of
from burst.runner.search.port import (
    Closed,
    Create,
    SearchAction,
    SearchEvent,
    Shutdown,
    Started,
    StopTrial,
    Validated,
)
from burst.runner.search.rungs import kept_of

SPACE = {"lr": {"type": "double", "minval": 0.0, "maxval": 1.0}}


def searcher_of(**fields: Any) -> HalvingSearcher:
    config = ExperimentConfig.model_validate(
        {
            "name": "n",
            "entrypoint": "train:Trial",
            "hyperparameters": SPACE,
            "searcher": {"name": "adaptive_asha", "max_length": "9ba", "divisor": 3, **fields},
            "reproducibility": {"experiment_seed": 7},
        }
    )
    made = make_searcher(config)
    assert isinstance(made, HalvingSearcher)
    return made


def asha(**fields: Any) -> HalvingSearcher:
    return searcher_of(**{"name": "asha", "num_rungs": 3, "max_trials": 10, **fields})


class Search:
    """A search run by hand, its state passed through JSON as the store would."""

    def __init__(self, searcher: HalvingSearcher) -> None:
        self.searcher = searcher
        self.state: Mapping[str, Any] = {}
        self.created: list[Create] = []
        self.stopped: dict[str, str] = {}
        self.shutdowns = 0

    def send(self, event: SearchEvent) -> tuple[SearchAction, ...]:
        state, actions = self.searcher.on_event(self.state, event)
        self.state = json.loads(json.dumps(state, allow_nan=False))
        for action in actions:
            if isinstance(action, Create):
                self.created.append(action)
            elif isinstance(action, StopTrial):
                self.stopped.setdefault(action.request, action.why)
            else:
                self.shutdowns += isinstance(action, Shutdown)
        return actions

    def validated(self, request: str, length: float, metric: float) -> tuple[SearchAction, ...]:
        return self.send(Validated(request, 1, length, metric))

    def started(self) -> Search:
        self.send(Started())
        return self

    @property
    def progress(self) -> float:
        return self.searcher.progress(self.state)


Curve = Callable[[int, float], float]
"""The metric of the n-th trial at a length."""


def simulate(
    searcher: HalvingSearcher, every: float, curve: Curve, seed: int = 0
) -> tuple[Search, Counter[float]]:
    """Trials train side by side, in an order drawn from `seed`, to where they are stopped; how
    many ended at each length."""
    search, chance = Search(searcher).started(), random.Random(seed)
    top = searcher.halving.ladder.top
    trained: dict[str, float] = {}
    ends: Counter[float] = Counter()
    names: dict[str, int] = {}
    while True:
        for create in search.created[len(names) :]:
            names[create.request] = len(names)
            trained[create.request] = 0.0
        if not trained:
            return search, ends
        request = chance.choice(sorted(trained))
        trained[request] = length = min(trained[request] + every, top)
        search.validated(request, length, curve(names[request], length))
        if length >= top or request in search.stopped:
            ends[trained.pop(request)] += 1
            search.send(Closed(request, "stopped" if request in search.stopped else "completed"))


def test_trials_that_get_worse_one_after_the_other_stop_at_the_first_rung() -> None:
    searcher = asha(max_length="900ba", max_concurrent_trials=1)
    search, ends = simulate(searcher, 100, lambda number, _: float(number))
    assert ends == {100: 9, 900: 1}
    assert search.shutdowns == 1
    assert search.progress == 1.0


def test_trials_that_get_better_one_after_the_other_all_reach_the_top() -> None:
    searcher = asha(max_length="900ba", max_concurrent_trials=1)
    _, ends = simulate(searcher, 100, lambda number, _: -float(number))
    assert ends == {900: 10}


def test_the_best_of_a_search_reaches_the_top_and_most_end_early() -> None:
    searcher = searcher_of(max_trials=40, max_length="81ba", mode="aggressive")
    for seed in range(5):
        search, ends = simulate(searcher, 1, lambda number, _: float(number * 7 % 40), seed)
        best = next(c.request for n, c in enumerate(search.created) if n * 7 % 40 == 0)
        assert best not in search.stopped
        assert sum(ends.values()) == 40
        assert ends[81] < 15


@pytest.mark.parametrize("smaller", [True, False])
def test_a_rung_lets_the_best_go_on_in_either_direction(smaller: bool) -> None:
    sign = 1 if smaller else -1
    search = Search(asha(smaller_is_better=smaller, max_concurrent_trials=4)).started()
    a, b, c, d = (create.request for create in search.created)
    search.validated(a, 1, sign * 5)
    search.validated(b, 1, sign * 6)
    search.validated(c, 1, sign * 4)
    search.validated(d, 1, sign * 4.5)
    assert set(search.stopped) == {b, d}
    assert search.stopped[d] == "rung 1 of 3 (1 batch): 2nd of 4, the best one goes on"
    assert len(search.created) == 6


def test_a_reason_says_the_place_and_how_many_go_on() -> None:
    searcher = searcher_of(max_trials=30, max_length="9ep", mode="aggressive")
    search = Search(searcher).started()
    for number in range(8):
        search.validated(search.created[number].request, 1, number)
    search.validated(search.created[8].request, 1, 5.5)
    said = search.stopped[search.created[8].request]
    assert said == "rung 1 of 3 (1 epoch): 7th of 9, the best 3 go on"


def test_one_validation_may_pass_several_rungs() -> None:
    search = Search(asha(max_concurrent_trials=3)).started()
    a, b, c = (create.request for create in search.created)
    search.validated(a, 4, 1.0)
    assert search.state["open"][a] == 2
    search.validated(b, 9, 0.5)
    assert search.state["open"][b] == 3
    search.validated(c, 9, 2.0)
    assert search.stopped[c].startswith("rung 1 of 3 (1 batch): 3rd of 3")
    assert [rung["results"] for rung in search.state["brackets"][0]["rungs"]] == [3, 2, 1]


def test_of_equal_metrics_the_newer_goes_on() -> None:
    search = Search(asha(max_concurrent_trials=3)).started()
    for create in tuple(search.created):
        search.validated(create.request, 1, 1.0)
    assert not search.stopped


def test_before_a_rung_nothing_is_compared() -> None:
    search = Search(asha(max_length="27ba", max_concurrent_trials=2)).started()
    a, b = (create.request for create in search.created)
    for length in (1, 2, 2.9):
        search.validated(a, length, 1.0)
        search.validated(b, length, 9.0)
    assert not search.stopped
    search.validated(a, 3, 9.0)
    search.validated(b, 3, 1.0)
    assert not search.stopped


def test_a_quotient_a_hair_below_a_rung_is_at_the_rung() -> None:
    search = Search(asha(max_concurrent_trials=1)).started()
    search.validated(search.created[0].request, 3 * (1 - 2**-52), 1.0)
    assert search.state["open"][search.created[0].request] == 2


@pytest.mark.parametrize("metric", [math.nan, math.inf])
def test_no_number_is_behind_all_others_and_harms_only_its_trial(metric: float) -> None:
    ill, well = (Search(asha(max_concurrent_trials=4)).started() for _ in range(2))
    names = [create.request for create in ill.created]
    ill.validated(names[0], 1, metric)
    well.validated(names[0], 1, 1e9)
    for search in (ill, well):
        for name, value in zip(names[1:], (3.0, 1.0, 2.0), strict=True):
            search.validated(name, 1, value)
    assert set(ill.stopped) - set(well.stopped) == {names[0]}
    assert set(ill.stopped) - {names[0]} == set(well.stopped)
    assert "validation_loss is not a number" in ill.stopped[names[0]]


def test_the_last_rung_ends_nothing_and_gives_the_place_to_the_next() -> None:
    search = Search(asha(max_concurrent_trials=1)).started()
    first = search.created[0].request
    search.validated(first, 9, 1.0)
    assert not search.stopped
    assert len(search.created) == 2
    search.send(Closed(first, "completed"))
    assert len(search.created) == 2


def test_a_trial_that_trains_on_beyond_the_top_is_stopped_at_its_next_validation() -> None:
    search = Search(asha(max_concurrent_trials=1)).started()
    first = search.created[0].request
    search.validated(first, 9, 1.0)
    search.validated(first, 10, 1.0)
    assert "trains on beyond 9 batches" in search.stopped[first]


def test_a_trial_that_ends_by_itself_below_the_top_makes_room_for_the_next() -> None:
    search = Search(asha(max_trials=3, max_concurrent_trials=1)).started()
    for number in range(3):
        request = search.created[number].request
        search.validated(request, 1, -float(number))
        search.send(Closed(request, "stopped" if number % 2 else "completed"))
    assert len(search.created) == 3
    assert search.shutdowns == 1


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_a_trial_that_fails_counts_as_the_worst_of_its_rung(how: str) -> None:
    search = Search(asha(max_trials=4, max_concurrent_trials=3)).started()
    a, b, c = (create.request for create in search.created)
    search.send(Closed(a, how))
    assert len(search.created) == 4
    search.validated(b, 1, 1.0)
    search.validated(c, 1, 2.0)
    assert "2nd of 3" in search.stopped[c]


def test_nothing_is_created_once_the_file_turns_out_to_be_wrong() -> None:
    search = Search(asha(max_concurrent_trials=3)).started()
    a, b, c = (create.request for create in search.created)
    search.validated(a, 1, 1.0)
    assert search.send(Closed(b, "misconfigured")) == (Shutdown(failed=True),)
    for request, how in ((c, "misconfigured"), (a, "failed")):
        search.send(Closed(request, how))
    assert (len(search.created), search.shutdowns, search.progress) == (3, 1, 1.0)


def test_an_end_after_a_stop_changes_nothing() -> None:
    search = Search(asha(max_concurrent_trials=2)).started()
    a, b = (create.request for create in search.created)
    search.validated(a, 1, 1.0)
    search.validated(b, 1, 2.0)
    before = search.state
    for how in ("stopped", "failed", "invalid_hp"):
        assert search.send(Closed(b, how)) == ()
    assert search.validated(b, 3, 0.0) == ()
    assert search.state == before


def test_invalid_hyperparameters_are_replaced_and_leave_no_result() -> None:
    search = Search(asha(max_trials=3, max_concurrent_trials=3)).started()
    a, b, c = (create.request for create in search.created)
    search.validated(a, 1, 1.0)
    search.send(Closed(a, "invalid_hp"))
    assert len(search.created) == 4
    assert search.state["brackets"][0]["rungs"][0] == {"results": 0, "best": []}
    search.validated(b, 1, 5.0)
    assert not search.stopped
    for request in (b, c, search.created[3].request):
        search.send(Closed(request, "completed"))
    assert (len(search.created), search.shutdowns) == (4, 1)


def test_a_search_where_everything_is_invalid_comes_to_an_end() -> None:
    search = Search(searcher_of(max_trials=4)).started()
    for count in range(1000):
        if count == len(search.created):
            break
        search.send(Closed(search.created[count].request, "invalid_hp"))
    assert len(search.created) <= search.searcher.halving.trials + 10
    assert search.shutdowns == 1


def test_the_same_seed_is_the_same_search_whatever_the_trials_do() -> None:
    searcher = searcher_of(max_trials=20)
    one, _ = simulate(searcher, 1, lambda number, _: float(number), 1)
    other, _ = simulate(searcher, 2, lambda number, _: -float(number), 2)
    assert {c.request: c for c in one.created} == {c.request: c for c in other.created}
    assert len({c.seed for c in one.created}) == len(one.created)


def test_progress_grows_to_the_whole() -> None:
    search = Search(searcher_of(max_trials=20)).started()
    assert search.progress == 0.0
    seen = [0.0]
    done: set[str] = set()
    while len(done) < len(search.created):
        request = next(c.request for c in search.created if c.request not in done)
        for length in (1, 3, 9):
            if request not in search.stopped:
                search.validated(request, length, float(len(done)))
                seen.append(search.progress)
        search.send(Closed(request, "completed"))
        done.add(request)
        seen.append(search.progress)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_the_largest_state_of_a_search_fits_into_a_record() -> None:
    searcher = searcher_of(max_trials=4000, max_length="4096ba", divisor=4, mode="aggressive")
    search = Search(searcher).started()
    room = room_of(4000, 4)
    best = tuple((-random.Random(number).random() * 1e-5, 3999) for number in range(room))
    rung = Rung(results=4000, best=best).model_dump(mode="json")
    full = {**search.state["brackets"][0], "rungs": [rung] * 5}
    size = len(json.dumps({**search.state, "brackets": [full]}))
    assert size <= largest(searcher.halving) < MAX_RECORD_BYTES


def test_a_search_that_no_record_could_hold_is_refused() -> None:
    with pytest.raises(ConfigError, match="20,000 trials"):
        searcher_of(max_trials=20_000, max_length="4096ba", mode="aggressive")


@given(
    metrics=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=60),
    divisor=st.sampled_from([1.5, 2, 3, 4]),
)
def test_what_is_not_kept_of_a_rung_changes_no_decision(
    metrics: list[float], divisor: float
) -> None:
    rung, seen = Rung(), list[float]()
    room = kept_of(len(metrics), divisor)
    for number, value in enumerate(metrics):
        metric = ranked(value, smaller_is_better=True)
        rung, place = rung.take(metric, number, room)
        rank = len(seen) if metric is None else sum(each < metric for each in seen)
        seen.append(math.inf if metric is None else metric)
        kept = kept_of(number + 1, divisor)
        assert (place < kept) == (rank < kept)
        assert place in (rank, number)


METRICS = st.floats(-1e290, 1e300) | st.sampled_from([math.nan, math.inf])
LENGTHS = st.floats(0, 40, allow_nan=False) | st.just(math.nan) | st.just(math.inf)


class AnyOrderOfEvents(RuleBasedStateMachine):
    """Whatever comes, in any order and any number of times, the search keeps its promises."""

    @initialize(
        trials=st.integers(1, 12),
        at_once=st.integers(0, 5),
        mode=st.sampled_from(["aggressive", "standard", "conservative"]),
        divisor=st.sampled_from([2, 3]),
    )
    def begin(self, trials: int, at_once: int, mode: str, divisor: int) -> None:
        self.search = Search(
            searcher_of(
                max_trials=trials,
                max_concurrent_trials=at_once,
                mode=mode,
                divisor=divisor,
                max_length="27ba",
            )
        )
        self.closed: set[str] = set()
        self.best = -1e300
        self.search.send(Started())

    @property
    def names(self) -> list[str]:
        return [create.request for create in self.search.created]

    @rule()
    def start_again(self) -> None:
        before = self.search.state
        assert self.search.send(Started()) == ()
        assert self.search.state == before

    @rule(data=st.data(), length=LENGTHS, metric=METRICS)
    def validate(self, data: st.DataObject, length: float, metric: float) -> None:
        request = data.draw(st.sampled_from([*self.names, "b0.999", "b7.0"]))
        over = request in self.closed or request in self.search.stopped
        again = request in self.search.stopped
        actions = self.search.validated(request, length, metric)
        stops = [each for each in actions if isinstance(each, StopTrial)]
        assert {each.request for each in stops} <= {request}
        if request not in self.names or request in self.closed:
            assert actions == ()
        if over and not again:
            assert not stops
        if not stops and length < 1:
            assert actions == ()

    @rule(data=st.data())
    def the_best_of_all_goes_on(self, data: st.DataObject) -> None:
        climbing = [name for name, at in self.search.state["open"].items() if at == 0]
        if climbing:
            request = data.draw(st.sampled_from(sorted(climbing)))
            self.best *= 1.01
            self.search.validated(request, 27, self.best)
            assert request not in self.search.stopped

    @rule(
        data=st.data(),
        how=st.sampled_from(["completed", "stopped", "failed", "cancelled", "invalid_hp"]),
    )
    def close(self, data: st.DataObject, how: str) -> None:
        request = data.draw(st.sampled_from([*self.names, "b0.999"]))
        actions = self.search.send(Closed(request, how))
        if request in self.closed or request in self.search.stopped:
            assert not [a for a in actions if isinstance(a, Create)]
        if request in self.names:
            self.closed.add(request)

    @precondition(lambda self: not self.search.shutdowns)
    @rule(data=st.data())
    def close_an_open_one(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.search.state["open"])))
        self.search.send(Closed(request, "completed"))
        self.closed.add(request)

    @invariant()
    def keeps_its_promises(self) -> None:
        assert len(self.names) == len(set(self.names))
        state, brackets = self.search.state, self.search.searcher.halving.brackets
        for place, (held, bracket) in enumerate(zip(state["brackets"], brackets, strict=True)):
            assert held["created"] - held["invalid"] <= bracket.trials
            mine = [name for name in state["open"] if name.startswith(f"b{place}.")]
            climbing = [name for name in mine if state["open"][name] < len(bracket.rungs)]
            assert len(climbing) <= bracket.concurrent
            full = held["created"] - held["invalid"] == bracket.trials
            assert full or len(climbing) == bracket.concurrent, "a place stays empty"
            counts = [rung["results"] for rung in held["rungs"]]
            assert all(count >= 0 for count in counts)
        assert not set(state["open"]) & self.closed
        assert self.search.shutdowns <= 1
        assert bool(self.search.shutdowns) == (not state["open"])
        assert 0.0 <= self.search.progress <= 1.0


AnyOrderOfEvents.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
TestAnyOrderOfEvents = AnyOrderOfEvents.TestCase
