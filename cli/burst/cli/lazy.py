"""A click group that knows its commands by name and imports one only when it is called.

`burst --help`, completion of command names and the answer to a mistyped name read the table alone,
so they cost what click costs.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import click
from click.shell_completion import CompletionItem

from burst.core.errors import ExitCode


@dataclass(frozen=True)
class Entry:
    """A command that is not imported yet."""

    name: str
    target: str
    """`module:attribute` of the click command."""
    help: str
    """The command's own short help; a test holds the two equal."""
    section: str


class NotBegun(click.ClickException):
    """Ctrl-C came before the command that was asked for had done anything."""

    exit_code = ExitCode.INTERRUPTED

    def __init__(self) -> None:
        super().__init__("Interrupted before anything was done.")

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"\n{self.message}", file=file, err=True)


class LazyGroup(click.Group):
    """A group whose commands come from a table."""

    def __init__(self, *args: Any, entries: Sequence[Entry] = (), **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.entries = {entry.name: entry for entry in entries}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.entries, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = entry.target.partition(":")
        try:
            command: click.Command = getattr(importlib.import_module(module), attribute)
        except KeyboardInterrupt:
            raise NotBegun from None
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.entries and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.entries, n=3, cutoff=0.6)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"There is no command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for name in self.entries)
        sections = dict.fromkeys(entry.section for entry in self.entries.values())
        for section in sections:
            rows = [(e.name.ljust(width), e.help) for e in self.entries.values()
                    if e.section == section]  # fmt: skip
            with formatter.section(section):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(e.name, help=e.help) for e in self.entries.values()
                 if e.name.startswith(incomplete)]  # fmt: skip
        return names or click.Command.shell_complete(self, ctx, incomplete)
