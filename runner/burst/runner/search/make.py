"""From an experiment's settings to its searcher."""

from __future__ import annotations

from burst.core.config import hparams
from burst.core.config.experiment import (
    AdaptiveAshaSearcher,
    AshaSearcher,
    ExperimentConfig,
    GridSearcher,
    RandomSearcher,
    SingleSearcher,
)
from burst.core.errors import ConfigError, Refused
from burst.runner.search.asha import HalvingSearcher
from burst.runner.search.ladder import largest
from burst.runner.search.listed import ListedSearcher, name_of
from burst.runner.search.port import Searcher
from burst.runner.search.rungs import halving_of
from burst.runner.search.seeds import generator

_MOST_STATE = 200_000
"""Bytes; the experiment's record holds its file and events beside it."""


def make_searcher(config: ExperimentConfig) -> Searcher:
    """The searcher that `config` asks for.

    Raises:
        Refused: for promotion, which burst reads but does not act on yet.
        ConfigError: a search that halves does not say how long a trial trains, or is too large.
    """
    asked, seed = config.searcher, config.reproducibility.experiment_seed
    space = config.hyperparameters
    if isinstance(asked, SingleSearcher):
        return ListedSearcher(lambda number: _sampled(config, name_of(number)), 1, 1, seed)
    if isinstance(asked, GridSearcher):
        points = hparams.grid(space)
        return ListedSearcher(
            lambda number: points[number], len(points), asked.max_concurrent_trials, seed
        )
    if isinstance(asked, RandomSearcher):
        return ListedSearcher(
            lambda number: _sampled(config, name_of(number)),
            asked.max_trials,
            asked.max_concurrent_trials,
            seed,
            replaceable=max(10, asked.max_trials),
        )
    return _halving(config, asked)


def _halving(config: ExperimentConfig, asked: AshaSearcher | AdaptiveAshaSearcher) -> Searcher:
    halving = halving_of(config)
    if asked.promote or halving is None:
        raise Refused(
            f"`searcher.promote` of {asked.name!r} is not acted on yet",
            why="burst stops what falls behind, and does not pause it to go on later",
            mend="leave `promote` out",
        )
    if largest(halving) > _MOST_STATE:
        raise ConfigError(
            f"a search over {asked.max_trials:,} trials is too large to be kept in one record",
            mend="lower `searcher.max_trials` or the number of rungs, or use several experiments",
        )
    return HalvingSearcher(
        propose=lambda request: _sampled(config, request),
        halving=halving,
        metric=asked.metric,
        smaller_is_better=asked.smaller_is_better,
        seed=config.reproducibility.experiment_seed,
        replaceable=max(10, asked.max_trials),
    )


def _sampled(config: ExperimentConfig, request: str) -> dict[str, object]:
    seed = config.reproducibility.experiment_seed
    return hparams.sample(config.hyperparameters, generator(seed, request, "hparams"))
