"""Reads experiment files, whichever dialect they are written in, and cluster files.

The text becomes a tree that knows its places, settings of the command line are put on top, old
spellings are translated, the tree is compared with the model and with the rules between fields,
and only then is the model made. Every step goes on after a mistake, so that one reading tells them
all.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from burst.core.config.check import check_section
from burst.core.config.cluster import ClusterConfig
from burst.core.config.dialect import translate
from burst.core.config.document import Node, Report
from burst.core.config.experiment import ExperimentConfig
from burst.core.config.files import read_root, read_text
from burst.core.config.names import explain_cluster_stranger, explain_stranger
from burst.core.config.overrides import apply_overrides
from burst.core.config.problems import ClusterFileError, ExperimentFileError
from burst.core.config.rules import check_rules
from burst.core.config.rules_cluster import check_cluster_rules
from burst.core.config.rules_search import check_space
from burst.core.config.trees import put
from burst.core.config.unacted import unacted

CLUSTER_FILE = "burst.yaml"

_random = random.SystemRandom()


@dataclass(frozen=True)
class LoadedExperiment:
    config: ExperimentConfig
    source: str
    """The file as it was written."""
    warnings: tuple[str, ...] = ()
    """Deprecated and ignored spellings, each with its place and the new form."""
    unacted: tuple[str, ...] = ()
    """Dotted names of what is accepted and not acted on yet."""
    seed_drawn: bool = False
    """Whether nobody chose the seed, so that each reading draws another."""


def load_experiment(path: Path, overrides: Sequence[str] = ()) -> LoadedExperiment:
    """Read and check an experiment file.

    Args:
        overrides: settings such as `searcher.max_trials=4`, read as YAML, which win over the file.

    Raises:
        ExperimentFileError: with every mistake, its place, and what was probably meant.
        ConfigError: where the file cannot be read at all.
    """
    return parse_experiment(read_text(path), str(path), overrides)


def parse_experiment(text: str, filename: str, overrides: Sequence[str] = ()) -> LoadedExperiment:
    """The same for a text; `filename` is what mistakes are told of, and gives a missing name."""
    report = Report()
    root = read_root(text, filename, report)
    if root is None:
        raise ExperimentFileError(filename, report.problems)
    apply_overrides(root, overrides, report)
    seed = root.child("reproducibility", "experiment_seed")
    seed_drawn = seed is None or seed.value is None
    _fill_in(root, filename)
    translate(root, report)
    check_section(root, ExperimentConfig, report, explain_stranger)
    if space := root.child("hyperparameters"):
        check_space(space, report, explain_stranger)
    check_rules(root, report)
    if report.problems:
        raise ExperimentFileError(filename, dict.fromkeys(report.problems))
    config = ExperimentConfig.model_validate(root.plain())
    return LoadedExperiment(config, text, report.warnings, unacted(config), seed_drawn)


def load_cluster(path: Path) -> ClusterConfig:
    """Read and check a cluster file, `burst.yaml`.

    Raises:
        ClusterFileError: with every mistake, its place, and what was probably meant.
        ConfigError: where the file cannot be read at all.
    """
    return parse_cluster(read_text(path), str(path))


def parse_cluster(text: str, filename: str) -> ClusterConfig:
    """Check the text of a cluster file.

    Raises:
        ClusterFileError: with every mistake, its place, and what was probably meant.
    """
    report = Report()
    root = read_root(text, filename, report)
    if root is not None:
        check_section(root, ClusterConfig, report, explain_cluster_stranger)
        check_cluster_rules(root, report)
    if root is None or report.problems:
        raise ClusterFileError(filename, dict.fromkeys(report.problems))
    return ClusterConfig.model_validate(root.plain())


def find_cluster(cwd: Path) -> Path | None:
    """The `burst.yaml` in a folder or the nearest one above it."""
    folder = cwd.absolute()
    for candidate in (folder, *folder.parents):
        path = candidate / CLUSTER_FILE
        if path.is_file():
            return path
    return None


def _fill_in(root: Node, filename: str) -> None:
    """What may be left out and has no one default: the name, the seed and the search."""
    for path, needed, value in (
        ("name", "name", Path(filename).stem),
        ("reproducibility.experiment_seed", "reproducibility.experiment_seed", _new_seed()),
        ("searcher.name", "searcher", "single"),
    ):
        there = root.child(*needed.split("."))
        if there is None or there.value is None:
            put(root, path, Node(value, root.place, path), Report())


def _new_seed() -> int:
    return _random.randrange(2**31)
