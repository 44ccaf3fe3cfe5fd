"""What can be done next, as a small tree of commands."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from burst.cli.views import text


def commands(rows: Sequence[tuple[str, str]]) -> list[Text]:
    """One line a command, with what it does."""
    width = max(len(command) for command, _ in rows)
    lines = []
    for index, (command, what) in enumerate(rows):
        mark = "└─ " if index == len(rows) - 1 else "├─ "
        line = Text(mark, style=text.FAINT).append(command.ljust(width), style="default")
        lines.append(line.append(f"  {what}", style=text.FAINT))
    return lines


def background(experiment: str, what: str) -> RenderableType:
    """That an experiment goes on without its terminal, and how to follow and steer it."""
    rows = (
        (f"burst wait {experiment}", "watch it again, to its end"),
        (f"burst logs {experiment} -f", "what its ranks write"),
        (f"burst pause {experiment}", "checkpoint and give back the slots"),
        (f"burst cancel {experiment}", "end it for good"),
    )
    line = Text("● ", style="cyan").append(experiment, style="bold default")
    return Group(line.append(f" {what}.", style="default"), *commands(rows))
