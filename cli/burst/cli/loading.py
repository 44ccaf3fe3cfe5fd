"""Reading an experiment file and telling, once and on stderr, what it should know of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from burst.cli.console import wants_colour
from burst.cli.session import Session

if TYPE_CHECKING:
    from burst.core.config.load import LoadedExperiment


def load(session: Session, file: Path, overrides: Sequence[str]) -> LoadedExperiment:
    """The experiment in `file`; its warnings go to stderr.

    Raises:
        ConfigError: with every mistake at once.
    """
    from burst.core.config.load import load_experiment

    loaded = load_experiment(file, overrides)
    for warning in loaded.warnings:
        _warn(session, warning)
    if loaded.unacted:
        _warn(session, f"accepted, not acted on yet: {', '.join(loaded.unacted)}")
    return loaded


def _warn(session: Session, text: str) -> None:
    import sys

    colour = wants_colour(session.environ, sys.stderr)
    label = click.style("Warning:", fg="yellow", bold=True) if colour else "Warning:"
    click.echo(f"{label} {text}", err=True, color=colour)
