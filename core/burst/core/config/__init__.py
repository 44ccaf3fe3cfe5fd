"""The files people write: experiments and clusters, read with the place of every mistake.

    loaded = load_experiment(Path("exp.yaml"), ["searcher.max_trials=4"])
    loaded.config        the normalised experiment
    loaded.warnings      deprecated spellings, with the new form
    loaded.unacted       what is accepted and not acted on yet

Names are imported when they are first used, so that a command which reads no file pays for none.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burst.core.config.cluster import ClusterConfig
    from burst.core.config.dump import dump_experiment
    from burst.core.config.experiment import ExperimentConfig
    from burst.core.config.load import (
        LoadedExperiment,
        find_cluster,
        load_cluster,
        load_experiment,
        parse_experiment,
    )
    from burst.core.config.problems import (
        ClusterFileError,
        ConfigFileError,
        ExperimentFileError,
        Problem,
    )
    from burst.core.config.schema import cluster_schema, experiment_schema

__all__ = [
    "ClusterConfig",
    "ClusterFileError",
    "ConfigFileError",
    "ExperimentConfig",
    "ExperimentFileError",
    "LoadedExperiment",
    "Problem",
    "cluster_schema",
    "dump_experiment",
    "experiment_schema",
    "find_cluster",
    "load_cluster",
    "load_experiment",
    "parse_experiment",
]

_HOMES = {
    "cluster": ("ClusterConfig",),
    "dump": ("dump_experiment",),
    "experiment": ("ExperimentConfig",),
    "load": (
        "LoadedExperiment",
        "find_cluster",
        "load_cluster",
        "load_experiment",
        "parse_experiment",
    ),
    "problems": ("ClusterFileError", "ConfigFileError", "ExperimentFileError", "Problem"),
    "schema": ("cluster_schema", "experiment_schema"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
