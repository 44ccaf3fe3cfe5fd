"""Searchers whose trials are known beforehand: single, grid and random."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from burst.core.config.experiment import ExperimentConfig
from burst.core.errors import Refused
from burst.runner.search import make_searcher
from burst.runner.search.book import Book, Entry
from burst.runner.search.listed import ListedSearcher
from burst.runner.search.port import (
    Closed,
    Create,
    SearchAction,
    Searcher,
    SearchEvent,
    Shutdown,
    Started,
    Validated,
)

SPACE = {
    "lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1, "count": 3},
    "net": {"width": {"type": "int", "minval": 1, "maxval": 2, "count": 2}},
    "name": "x",
}


def config(searcher: Mapping[str, Any], space: Mapping[str, Any] = SPACE) -> ExperimentConfig:
    return ExperimentConfig.model_validate(
        {
            "name": "n",
            "entrypoint": "train:Trial",
            "hyperparameters": space,
            "searcher": searcher,
            "reproducibility": {"experiment_seed": 7},
        }
    )


class Driven:
    """A search run by hand, its state passed through JSON as the store would."""

    def __init__(self, searcher: Searcher) -> None:
        self.searcher = searcher
        self.state: Mapping[str, Any] = {}
        self.created: list[Create] = []
        self.over = False

    def send(self, event: SearchEvent) -> tuple[SearchAction, ...]:
        state, actions = self.searcher.on_event(self.state, event)
        self.state = json.loads(json.dumps(state))
        self.created += [action for action in actions if isinstance(action, Create)]
        self.over = self.over or any(isinstance(action, Shutdown) for action in actions)
        return actions

    def run(self) -> list[Create]:
        self.send(Started())
        for create in self.created:
            self.send(Closed(create.request, "completed"))
        return self.created


def test_single_creates_one_trial_and_is_over() -> None:
    driven = Driven(make_searcher(config({"name": "single"}, {"lr": 0.1, "a": {"b": 2}})))
    driven.send(Started())
    assert [create.hparams for create in driven.created] == [{"lr": 0.1, "a": {"b": 2}}]
    assert driven.over


def test_grid_goes_through_the_product_in_order_of_sorted_names() -> None:
    created = Driven(make_searcher(config({"name": "grid"}))).run()
    seen = [(create.hparams["lr"], create.hparams["net"]["width"]) for create in created]
    assert seen == [
        (pytest.approx(10.0**exponent), width)
        for exponent in (-4.0, -2.5, -1.0)
        for width in (1, 2)
    ]


def test_random_creates_as_many_as_asked_all_different() -> None:
    driven = Driven(make_searcher(config({"name": "random", "max_trials": 20})))
    created = driven.run()
    assert len({create.hparams["lr"] for create in created}) == 20
    assert len({create.seed for create in created}) == 20
    assert driven.over
    assert driven.searcher.progress(driven.state) == 1.0


def test_the_same_seed_is_the_same_search_whatever_the_trials_do() -> None:
    settings = config({"name": "random", "max_trials": 9, "max_concurrent_trials": 2})
    forwards = Driven(make_searcher(settings)).run()
    other = Driven(make_searcher(settings))
    other.send(Started())
    while not other.over:
        still_open = other.state["open"]
        other.send(Closed(still_open[-1], "failed"))
        if len(other.created) == 9 and not other.state["open"]:
            break
    assert other.created == forwards


def test_another_seed_is_another_search() -> None:
    first = config({"name": "random", "max_trials": 3})
    second = first.model_copy(
        update={"reproducibility": first.reproducibility.model_copy(update={"experiment_seed": 8})}
    )
    assert Driven(make_searcher(first)).run() != Driven(make_searcher(second)).run()


def test_invalid_hyperparameters_are_replaced_by_other_ones() -> None:
    driven = Driven(make_searcher(config({"name": "random", "max_trials": 2})))
    driven.send(Started())
    driven.send(Closed("r0", "invalid_hp"))
    assert [create.request for create in driven.created] == ["r0", "r1", "r2"]
    assert driven.created[2].hparams != driven.created[0].hparams
    driven.send(Closed("r1", "completed"))
    assert not driven.over
    driven.send(Closed("r2", "completed"))
    assert driven.over


def test_a_search_where_everything_is_invalid_comes_to_an_end() -> None:
    driven = Driven(make_searcher(config({"name": "random", "max_trials": 3})))
    driven.send(Started())
    for count in range(1000):
        if count >= len(driven.created):
            break
        driven.send(Closed(driven.created[count].request, "invalid_hp"))
    assert len(driven.created) == 3 + 10
    assert driven.over


def test_promotion_is_refused_by_name() -> None:
    asha = {"name": "asha", "num_rungs": 2, "max_trials": 4, "max_time": 9}
    with pytest.raises(Refused, match="promote"):
        make_searcher(config({**asha, "promote": True}))
    make_searcher(config({**asha, "promote": False}))


class AnyOrderOfEvents(RuleBasedStateMachine):
    """Whatever comes, in any order and any number of times, the search keeps its promises."""

    @initialize(
        count=st.integers(1, 12), concurrent=st.integers(0, 5), replaceable=st.integers(0, 4)
    )
    def begin(self, count: int, concurrent: int, replaceable: int) -> None:
        searcher = ListedSearcher(
            lambda number: {"n": number}, count, concurrent, 3, replaceable=replaceable
        )
        self.driven = Driven(searcher)
        self.count, self.concurrent, self.replaceable = count, concurrent, replaceable
        self.closed: set[str] = set()
        self.invalid = 0
        self.shutdowns = 0

    def send(self, event: SearchEvent) -> tuple[SearchAction, ...]:
        actions = self.driven.send(event)
        self.shutdowns += sum(isinstance(action, Shutdown) for action in actions)
        return actions

    @rule()
    def start(self) -> None:
        before = len(self.driven.created)
        first = not self.driven.state
        actions = self.send(Started())
        assert first or (not actions and len(self.driven.created) == before)

    @rule(number=st.integers(0, 20), metric=st.floats(allow_nan=True, allow_infinity=True))
    def validate(self, number: int, metric: float) -> None:
        assert self.send(Validated(f"r{number}", 1, 5.0, metric)) == ()

    @rule(number=st.integers(0, 20), how=st.sampled_from(["completed", "failed", "invalid_hp"]))
    def close_any(self, number: int, how: str) -> None:
        request = f"r{number}"
        new = request in {c.request for c in self.driven.created} - self.closed
        actions = self.send(Closed(request, how))
        if new:
            self.closed.add(request)
            self.invalid += how == "invalid_hp" and self.invalid < self.replaceable
        else:
            assert actions == ()

    @precondition(lambda self: self.driven.created and not self.driven.over)
    @rule(data=st.data())
    def close_an_open_one(self, data: st.DataObject) -> None:
        still = sorted({c.request for c in self.driven.created} - self.closed)
        if still:
            self.close_any(int(data.draw(st.sampled_from(still))[1:]), "completed")

    @invariant()
    def keeps_its_promises(self) -> None:
        requests = [create.request for create in self.driven.created]
        assert len(requests) == len(set(requests)) <= self.count + self.invalid
        still_open = len(requests) - len(self.closed)
        if self.concurrent:
            assert still_open <= self.concurrent
        assert self.shutdowns <= 1
        if self.driven.over:
            assert len(requests) == self.count + self.invalid
        if self.driven.state:
            assert 0.0 <= self.driven.searcher.progress(self.driven.state) <= 1.0
            full = len(requests) == self.count + self.invalid
            busy = self.concurrent and still_open == self.concurrent
            assert full or busy, "there is room for another trial and none was created"
            assert self.driven.over or not full or (self.replaceable and still_open)


TestAnyOrderOfEvents = AnyOrderOfEvents.TestCase


@given(
    st.floats(allow_nan=True, allow_infinity=True), st.floats(allow_nan=True, allow_infinity=True)
)
def test_an_event_in_the_book_comes_back_as_it_was(length: float, metric: float) -> None:
    entry = Entry(event="validated", request="r1", number=2, length=length, metric=metric)
    again = Book.model_validate_json(json.dumps(Book(inbox=(entry,)).written()))
    event = again.inbox[0].to_event()
    assert repr(event) == repr(Validated("r1", 2, length, metric))
