"""Brackets and their rungs: how a search by successive halving shares out its trials. Pure.

The algorithm is asynchronous successive halving (Li et al., "A System for Massively Parallel
Hyperparameter Tuning", 2018) in the form, and with the figures, of Determined 0.38.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from burst.core.config.experiment import AdaptiveAshaSearcher, AshaSearcher, ExperimentConfig
from burst.core.config.halving import Ladder, ladder_of


@dataclass(frozen=True)
class Bracket:
    """A set of rungs with the trials that climb it."""

    rungs: tuple[float, ...]
    """Lengths, ascending; the last is the longest that a trial trains."""
    trials: int
    """How many valid ones it has."""
    concurrent: int
    """Its share of the trials that train at once."""


@dataclass(frozen=True)
class Halving:
    """All that the settings of a search say."""

    ladder: Ladder
    divisor: float
    brackets: tuple[Bracket, ...]
    """The one with the most rungs first."""

    @property
    def trials(self) -> int:
        """How many valid trials there are at most; the least of a bracket is one, so they may be
        more than `max_trials`."""
        return sum(bracket.trials for bracket in self.brackets)


def halving_of(config: ExperimentConfig) -> Halving | None:
    """The plan of a search that halves; None of any other.

    Raises:
        ConfigError: the file does not say how long a trial trains.
    """
    searcher, ladder = config.searcher, ladder_of(config)
    if isinstance(searcher, AshaSearcher) and ladder is not None:
        return Halving(ladder, searcher.divisor, (_only_bracket(searcher, ladder.top),))
    if isinstance(searcher, AdaptiveAshaSearcher) and ladder is not None:
        return Halving(ladder, searcher.divisor, _brackets(searcher, ladder.top))
    return None


def _only_bracket(searcher: AshaSearcher, top: float) -> Bracket:
    at_once = searcher.max_concurrent_trials
    if not at_once:
        at_once = int(min(searcher.divisor ** (searcher.num_rungs - 1), searcher.max_trials))
    rungs = rung_lengths(searcher.num_rungs, searcher.divisor, top)
    return Bracket(rungs, searcher.max_trials, max(1, min(at_once, searcher.max_trials)))


def _brackets(searcher: AdaptiveAshaSearcher, top: float) -> tuple[Bracket, ...]:
    divisor = searcher.divisor
    counts = sorted(searcher.bracket_rungs, reverse=True) or rung_counts(
        searcher.mode,
        most_rungs(searcher.max_rungs, divisor, top, searcher.max_trials),
    )
    trials = share_trials(searcher.max_trials, divisor, counts)
    shares = share_concurrency(searcher.max_concurrent_trials, divisor, trials)
    return tuple(
        Bracket(rung_lengths(count, divisor, top), of_it, min(share, of_it))
        for count, of_it, share in zip(counts, trials, shares, strict=True)
    )


def most_rungs(max_rungs: int, divisor: float, top: float, max_trials: int) -> int:
    """The most rungs that make sense: each a `divisor` longer than the one before, for as many
    trials and as much length as there are."""
    return min(max_rungs, whole_log(divisor, top) + 1, whole_log(divisor, max_trials) + 1)


def whole_log(base: float, value: float) -> int:
    """The largest n >= 0 for which `base ** n` is not more than `value`. Found by powers: the
    quotient of two logarithms is one too small for such as 243 to the base 3."""
    found, power = 0, base
    while power <= value:
        found, power = found + 1, power * base
    return found


def rung_counts(mode: str, most: int) -> list[int]:
    """How many rungs each bracket has, the most first."""
    least = {"aggressive": most, "standard": (most - 1) // 2 + 1, "conservative": 1}[mode]
    return list(range(most, least - 1, -1))


def share_trials(max_trials: int, divisor: float, counts: Sequence[int]) -> list[int]:
    """Each bracket's trials: as many that all of them train about as long in sum."""
    weights = [divisor ** (count - 1) / count for count in counts]
    whole = sum(weights)
    shares = [max(int(weight / whole * max_trials), 1) for weight in weights]
    shares[0] += max(max_trials - sum(shares), 0)
    return shares


def share_concurrency(at_once: int, divisor: float, trials: Sequence[int]) -> list[int]:
    """Each bracket's share of the trials that train at once; 0 lets the last bracket decide."""
    if at_once == 0:
        return [max(trials[-1], int(divisor))] * len(trials)
    each, rest = divmod(max(at_once, len(trials)), len(trials))
    return [each + (number < rest) for number in range(len(trials))]


def rung_lengths(count: int, divisor: float, top: float) -> tuple[float, ...]:
    """The lengths of a bracket's rungs, whole below the top and never beyond it."""
    below = (top / divisor ** (count - 1 - number) for number in range(count - 1))
    return (*(min(max(float(math.floor(length)), 1.0), top) for length in below), top)


def kept_of(results: int, divisor: float) -> int:
    """How many of a rung's results so far go on; the best one always does."""
    return max(math.floor(results / divisor), 1)


def expected_ends(halving: Halving) -> dict[float, int]:
    """How many trials end at each length, if those of a bracket came to its rungs together."""
    found: dict[float, int] = {}
    for bracket in halving.brackets:
        left = bracket.trials
        for length in bracket.rungs[:-1]:
            go_on = kept_of(left, halving.divisor)
            found[length] = found.get(length, 0) + left - go_on
            left = go_on
        found[bracket.rungs[-1]] = found.get(bracket.rungs[-1], 0) + left
    return {length: ends for length, ends in sorted(found.items()) if ends}
