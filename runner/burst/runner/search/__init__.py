"""Searchers: who proposes trials. Events in, actions out, the whole state one JSON value."""

from __future__ import annotations

from burst.core.config.experiment import ExperimentConfig
from burst.core.model import Experiment
from burst.runner.search.book import Book
from burst.runner.search.make import make_searcher

__all__ = ["make_searcher", "progress_of"]


def progress_of(experiment: Experiment) -> float:
    """How much of the search is over, 0 to 1, by trials that ended."""
    config = ExperimentConfig.model_validate(experiment.config)
    return make_searcher(config).progress(Book.of(experiment).state)
