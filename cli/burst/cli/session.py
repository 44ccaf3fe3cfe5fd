"""What every command is handed: the environment, the clock, the workspace and the two consoles."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from burst.cli.console import console, is_terminal
from burst.core.clock import Clock, SystemClock
from burst.core.model import Json
from burst.core.workspace import Workspace, home_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from burst.core.store.port import Store


@dataclass
class Session:
    """One call of `burst`. Tests make their own, with a clock and a store of theirs."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    cwd: Path = field(default_factory=Path.cwd)
    clock: Clock = field(default_factory=SystemClock)

    @property
    def home(self) -> Path:
        return home_of(self.environ)

    @cached_property
    def workspace(self) -> Workspace:
        from burst.core.workspace import open_workspace

        return open_workspace(self.environ, self.cwd)

    @property
    def store(self) -> Store:
        return self.workspace.store

    @cached_property
    def out(self) -> Console:
        """Data."""
        return console(self.environ, sys.stdout)

    @cached_property
    def err(self) -> Console:
        """Everything else."""
        return console(self.environ, sys.stderr)

    @property
    def on_terminal(self) -> bool:
        """Whether a person watches stdout."""
        return is_terminal(self.environ, sys.stdout)

    def show(self, *parts: RenderableType) -> None:
        """Print renderables on stdout, one below the other."""
        _print(self.out, parts, err=False)

    def tell(self, *parts: RenderableType) -> None:
        """The same on stderr, for what is not data."""
        _print(self.err, parts, err=True)

    def note(self, text: str) -> None:
        """Say something that is not data, on stderr."""
        click.echo(text, err=True)

    def json(self, value: Json) -> None:
        """Print one JSON document on stdout."""
        click.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))

    def json_line(self, value: Json) -> None:
        """Print one JSON object on a line of its own, at once."""
        click.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))
        sys.stdout.flush()


def _print(console: Console, parts: Sequence[RenderableType], *, err: bool) -> None:
    """A pipe gets no padding at the ends of lines."""
    if console.is_terminal:
        console.print(*parts, sep="\n")
        return
    with console.capture() as captured:
        console.print(*parts, sep="\n")
    for line in captured.get().splitlines():
        click.echo(line.rstrip(), err=err)


pass_session = click.make_pass_decorator(Session, ensure=True)


def json_option(command: Any) -> Any:
    """`--json`, as `as_json`."""
    option = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
    return option(command)
