"""What a search is going to do: brackets and rungs, and how long its trials train. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from burst.cli.shapes import BracketJson, EndsJson, SearchJson
from burst.core.config.experiment import (
    ExperimentConfig,
    GridSearcher,
    SingleSearcher,
)
from burst.core.config.halving import Ladder
from burst.core.config.hparams import grid_size
from burst.core.length import Unit
from burst.runner.search.rungs import Bracket, expected_ends, halving_of


@dataclass(frozen=True)
class SearchPlan:
    """A search before it begins."""

    searcher: str
    trials: int
    """At most, without those that replace invalid ones."""
    at_once: int
    """Trials that the search lets train at the same time."""
    slots: int
    """Of each trial."""
    ladder: Ladder | None
    """What lengths are in; None where the trial's own code says how long it trains."""
    brackets: tuple[Bracket, ...]
    """Of a search that halves; else none."""
    ends: tuple[tuple[float, int], ...]
    """Lengths, and how many trials end at each: all at the longest, or, of a search that halves,
    as many as do if the trials of a bracket come to its rungs together."""

    @property
    def trained(self) -> float:
        """How long all trials train in sum."""
        return sum(length * trials for length, trials in self.ends)

    @property
    def slot_hours(self) -> float | None:
        """What that holds; None where lengths are no times."""
        if self.ladder is None or self.ladder.unit is not Unit.SECONDS:
            return None
        return self.trained * self.slots / 3600


def search_plan(config: ExperimentConfig) -> SearchPlan:
    """
    Raises:
        ConfigError: a search that halves does not say how long a trial trains.
    """
    searcher, slots = config.searcher, config.resources.slots_per_trial
    halving = halving_of(config)
    if halving is not None:
        at_once = sum(bracket.concurrent for bracket in halving.brackets)
        ends = tuple(expected_ends(halving).items())
        return SearchPlan(searcher.name, halving.trials, at_once, slots, halving.ladder,
                          halving.brackets, ends)  # fmt: skip
    trials = _trials(config)
    limit = 0 if isinstance(searcher, SingleSearcher) else searcher.max_concurrent_trials
    length = searcher.max_length
    ladder = None if length is None else Ladder(length.amount, length.unit)
    ends = () if ladder is None else ((ladder.top, trials),)
    return SearchPlan(searcher.name, trials, min(trials, limit or trials), slots, ladder, (), ends)


def _trials(config: ExperimentConfig) -> int:
    searcher = config.searcher
    if isinstance(searcher, SingleSearcher):
        return 1
    if isinstance(searcher, GridSearcher):
        return grid_size(config.hyperparameters)
    return searcher.max_trials


def brackets_json(plan: SearchPlan) -> list[BracketJson]:
    return [
        {"rungs": list(each.rungs), "trials": each.trials, "at_once": each.concurrent}
        for each in plan.brackets
    ]


def search_json(plan: SearchPlan) -> SearchJson:
    ends: list[EndsJson] = [{"length": length, "trials": of} for length, of in plan.ends]
    return {
        "searcher": plan.searcher,
        "trials": plan.trials,
        "at_once": plan.at_once,
        "slots_per_trial": plan.slots,
        "unit": None if plan.ladder is None else str(plan.ladder.unit),
        "brackets": brackets_json(plan),
        "ends": ends,
        "trained": plan.trained if plan.ladder is not None else None,
        "slot_hours": plan.slot_hours,
    }
