"""What a search by successive halving remembers: its brackets, their rungs, and who climbs them.

All of it is one JSON value. Numbers in it are finite, since JSON has no others: a metric that is
not a number, or as bad as can be, is counted and never kept.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from burst.runner.search.rungs import Halving, kept_of

KEPT = 200
"""Results of a rung that are kept whatever the divisor is."""
_SPARE = 16
_RESULT, _OPEN = 36, 24
"""Bytes of a result, and of a trial that is open."""
_LARGEST = 1.7976931348623157e308


class State(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rung(State):
    results: int = 0
    """How many trials came here."""
    best: tuple[tuple[float, int], ...] = ()
    """The metrics of the best of them, ascending, each with its trial's number in the bracket:
    all that can decide who goes on."""

    def take(self, metric: float | None, number: int, room: int) -> tuple[Rung, int]:
        """With one result more, and its place from 0. Of equal ones the newer is the better.

        Args:
            metric: smaller is better; None is behind all others.
            room: how many of the best are kept.
        """
        if metric is None:
            return self.model_copy(update={"results": self.results + 1}), self.results
        place = bisect_left(self.best, metric, key=lambda each: each[0])
        best = (*self.best[:place], (metric, number), *self.best[place:])[:room]
        if place == len(self.best) >= room:
            place = self.results  # somewhere among those that are not kept: say the last
        return self.model_copy(update={"results": self.results + 1, "best": best}), place

    def without(self, number: int) -> Rung:
        """As if that trial had never come here."""
        best = tuple(each for each in self.best if each[1] != number)
        return self.model_copy(update={"results": self.results - 1, "best": best})


class BracketState(State):
    created: int = 0
    invalid: int = 0
    """Trials that refused their hyperparameters and were replaced."""
    over: int = 0
    """Valid trials that train no more, or have reached the top."""
    rungs: tuple[Rung, ...]


class SearchState(State):
    brackets: tuple[BracketState, ...]
    open: Mapping[str, int] = {}
    """Trials that the search still has to do with, by request: the rung that each climbs to; the
    number of rungs for one that has reached the top."""
    shut: bool = False

    def with_bracket(self, place: int, bracket: BracketState) -> SearchState:
        brackets = (*self.brackets[:place], bracket, *self.brackets[place + 1 :])
        return self.model_copy(update={"brackets": brackets})

    def climbing(self, request: str, rung: int | None) -> SearchState:
        """With a trial at that rung; None takes it out."""
        still_open = {name: at for name, at in self.open.items() if name != request}
        if rung is not None:
            still_open[request] = rung
        return self.model_copy(update={"open": still_open})


def ranked(metric: float, smaller_is_better: bool) -> float | None:
    """A metric as rungs compare it, smaller being better; None is behind all others."""
    value = metric if smaller_is_better else -metric
    if math.isnan(value) or value == math.inf:
        return None
    return max(value, -_LARGEST)


def largest(halving: Halving) -> int:
    """Bytes that the state of such a search comes to at most, about."""
    parts = ((room_of(each.trials, halving.divisor), each) for each in halving.brackets)
    return sum(
        _RESULT * min(room, each.trials) * len(each.rungs) + _OPEN * each.concurrent
        for room, each in parts
    )


def room_of(trials: int, divisor: float) -> int:
    """How many results of a rung have to be kept, so that it is known who goes on."""
    return max(kept_of(trials, divisor) + _SPARE, KEPT)
