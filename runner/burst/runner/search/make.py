"""From an experiment's settings to its searcher."""

from __future__ import annotations

from burst.core.config import hparams
from burst.core.config.experiment import (
    ExperimentConfig,
    GridSearcher,
    RandomSearcher,
    SingleSearcher,
)
from burst.core.errors import Refused
from burst.runner.search.listed import ListedSearcher, name_of
from burst.runner.search.port import Searcher
from burst.runner.search.seeds import generator

SUPPORTED = ("single", "grid", "random")


def make_searcher(config: ExperimentConfig) -> Searcher:
    """The searcher that `config` asks for.

    Raises:
        Refused: for one that burst reads but does not act on yet.
    """
    asked, seed = config.searcher, config.reproducibility.experiment_seed
    space = config.hyperparameters
    if isinstance(asked, SingleSearcher):
        return ListedSearcher(lambda number: _sampled(config, number), 1, 1, seed)
    if isinstance(asked, GridSearcher):
        points = hparams.grid(space)
        return ListedSearcher(
            lambda number: points[number], len(points), asked.max_concurrent_trials, seed
        )
    if isinstance(asked, RandomSearcher):
        return ListedSearcher(
            lambda number: _sampled(config, number),
            asked.max_trials,
            asked.max_concurrent_trials,
            seed,
            replaceable=max(10, asked.max_trials),
        )
    raise Refused(
        f"the searcher {asked.name!r} is not acted on yet",
        why="its settings are read and checked, but burst cannot run it in this version",
        mend=f"use one of: {', '.join(SUPPORTED)}",
    )


def _sampled(config: ExperimentConfig, number: int) -> dict[str, object]:
    seed = config.reproducibility.experiment_seed
    return hparams.sample(config.hyperparameters, generator(seed, name_of(number), "hparams"))
