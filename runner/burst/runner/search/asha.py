"""Searches by successive halving that stop what falls behind: `asha` and `adaptive_asha`.

Every trial begins as if it were to train to the top. At each rung on the way its metric is
compared with those of the trials that have been there before: one in `divisor` goes on, the others
are stopped, and the next trial takes the place at once. Nobody waits for anybody.

As in Determined 0.38, but: a metric that is not a number is behind all others and goes no further,
a trial that ends by itself below the top makes room for the next, the number of trials is bounded
whatever they do, and nothing more is created once one says that the experiment's file is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from burst.core.model import Json
from burst.runner.search.ladder import BracketState, Rung, SearchState, ranked, room_of
from burst.runner.search.port import (
    INVALID_HP,
    MISCONFIGURED,
    Closed,
    Create,
    SearchAction,
    SearchEvent,
    Shutdown,
    Started,
    StopTrial,
    Validated,
)
from burst.runner.search.rungs import Halving, kept_of
from burst.runner.search.seeds import trial_seed

_NEARLY = 1 - 1e-9
"""Of a rung's length: epochs are quotients."""
_BAD = ("failed", "cancelled", INVALID_HP, MISCONFIGURED)
Answer = tuple[SearchState, tuple[SearchAction, ...]]


@dataclass(frozen=True)
class HalvingSearcher:
    """A searcher over brackets of rungs; see the module."""

    propose: Callable[[str], Mapping[str, Json]]
    """A trial's hyperparameters by its request; pure."""
    halving: Halving
    metric: str
    smaller_is_better: bool
    seed: int
    replaceable: int
    """How many trials with invalid hyperparameters are replaced by further ones at most."""
    wants_validations: bool = True

    def on_event(
        self, state: Mapping[str, Json], event: SearchEvent
    ) -> tuple[Mapping[str, Json], tuple[SearchAction, ...]]:
        """Events that do not fit (a second start, one of a trial that is stopped) change
        nothing."""
        if not state:
            if not isinstance(event, Started):
                return state, ()
            answer = self._begin()
        else:
            held = SearchState.model_validate(state)
            if isinstance(event, Started) or event.request not in held.open:
                return state, ()
            if isinstance(event, Validated):
                answer = self._validated(held, event)
            else:
                answer = self._closed(held, event)
        after, actions = self._shut(answer)
        return after.model_dump(mode="json"), actions

    def progress(self, state: Mapping[str, Json]) -> float:
        """By the results at the first rungs, and once all are in, by the trials that are over."""
        if not state:
            return 0.0
        held = SearchState.model_validate(state)
        if held.shut and not held.open:
            return 1.0
        parts = zip(held.brackets, self.halving.brackets, strict=True)
        done = sum(_done(bracket, of.trials) * of.trials for bracket, of in parts)
        return min(1.0, done / self.halving.trials)

    # --- events -----------------------------------------------------------------------------

    def _begin(self) -> Answer:
        brackets = self.halving.brackets
        state = SearchState(
            brackets=tuple(
                BracketState(rungs=tuple(Rung() for _ in each.rungs)) for each in brackets
            )
        )
        actions: tuple[SearchAction, ...] = ()
        for place, bracket in enumerate(brackets):
            for _ in range(min(bracket.concurrent, bracket.trials)):
                state, created = self._create(state, place)
                actions += created
        return state, actions

    def _validated(self, state: SearchState, event: Validated) -> Answer:
        place, number = _parts(event.request)
        lengths, at = self.halving.brackets[place].rungs, state.open[event.request]
        top = len(lengths)
        if at == top:
            beyond = event.length * _NEARLY > lengths[-1]
            why = f"it trains on beyond {self.halving.ladder.words(lengths[-1])}, the longest"
            return state, (StopTrial(event.request, why),) if beyond else ()
        metric = ranked(event.metric, self.smaller_is_better)
        while at < top and event.length >= lengths[at] * _NEARLY:
            state, rank = self._take(state, place, at, metric, number)
            results = state.brackets[place].rungs[at].results
            goes_on = metric is not None and rank < kept_of(results, self.halving.divisor)
            at += 1
            if at < top and not goes_on:
                why = self._why(place, at - 1, results, None if metric is None else rank)
                state = _over(state.climbing(event.request, None), place)
                state, created = self._next(state, place)
                return state, (StopTrial(event.request, why), *created)
        state = state.climbing(event.request, at)
        return self._next(_over(state, place), place) if at == top else (state, ())

    def _closed(self, state: SearchState, event: Closed) -> Answer:
        place, number = _parts(event.request)
        at, top = state.open[event.request], len(self.halving.brackets[place].rungs)
        state = state.climbing(event.request, None)
        replaced = sum(bracket.invalid for bracket in state.brackets)
        if event.how == MISCONFIGURED and not state.shut:
            return state.model_copy(update={"shut": True}), (Shutdown(failed=True),)
        if at == top:
            return state, ()
        if event.how == INVALID_HP and replaced < self.replaceable:
            return self._replace(state, place, number, at)
        if event.how in _BAD:
            state, _ = self._take(state, place, at, None, number)
        return self._next(_over(state, place), place)

    # --- trials -----------------------------------------------------------------------------

    def _take(
        self, state: SearchState, place: int, at: int, metric: float | None, number: int
    ) -> tuple[SearchState, int]:
        bracket = state.brackets[place]
        room = room_of(self.halving.brackets[place].trials, self.halving.divisor)
        rung, rank = bracket.rungs[at].take(metric, number, room)
        rungs = (*bracket.rungs[:at], rung, *bracket.rungs[at + 1 :])
        changed = bracket.model_copy(update={"rungs": rungs})
        return state.with_bracket(place, changed), rank

    def _replace(self, state: SearchState, place: int, number: int, at: int) -> Answer:
        """Another trial for one that refused its hyperparameters, which never was."""
        bracket = state.brackets[place]
        rungs = tuple(
            rung.without(number) if below < at else rung
            for below, rung in enumerate(bracket.rungs)
        )
        changed = bracket.model_copy(update={"rungs": rungs, "invalid": bracket.invalid + 1})
        return self._next(state.with_bracket(place, changed), place)

    def _next(self, state: SearchState, place: int) -> Answer:
        """One more trial, where the bracket has any left."""
        bracket, of_it = state.brackets[place], self.halving.brackets[place].trials
        if state.shut or bracket.created - bracket.invalid >= of_it:
            return state, ()
        return self._create(state, place)

    def _create(self, state: SearchState, place: int) -> Answer:
        bracket = state.brackets[place]
        request = f"b{place}.{bracket.created}"
        changed = bracket.model_copy(update={"created": bracket.created + 1})
        state = state.with_bracket(place, changed).climbing(request, 0)
        return state, (Create(request, self.propose(request), trial_seed(self.seed, request)),)

    def _shut(self, answer: Answer) -> Answer:
        """Nothing more is created once every bracket is full and no trial can turn out invalid."""
        state, actions = answer
        if state.open or state.shut:
            return answer
        return state.model_copy(update={"shut": True}), (*actions, Shutdown())

    def _why(self, place: int, at: int, results: int, rank: int | None) -> str:
        lengths = self.halving.brackets[place].rungs
        where = f"rung {at + 1} of {len(lengths)} ({self.halving.ladder.words(lengths[at])})"
        if rank is None:
            return f"{where}: {self.metric} is not a number that could be compared"
        kept = kept_of(results, self.halving.divisor)
        go_on = "the best one goes on" if kept == 1 else f"the best {kept} go on"
        return f"{where}: {_ordinal(rank + 1)} of {results}, {go_on}"


def _parts(request: str) -> tuple[int, int]:
    """A request's bracket, and its number there."""
    bracket, _, number = request[1:].partition(".")
    return int(bracket), int(number)


def _over(state: SearchState, place: int) -> SearchState:
    bracket = state.brackets[place]
    return state.with_bracket(place, bracket.model_copy(update={"over": bracket.over + 1}))


def _done(bracket: BracketState, trials: int) -> float:
    over = bracket.over / trials
    if bracket.rungs[0].results >= trials or over >= 1:
        return over
    return max(over, bracket.rungs[0].results / (1.2 * trials))


def _ordinal(number: int) -> str:
    teens = number % 100 in (11, 12, 13)
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
