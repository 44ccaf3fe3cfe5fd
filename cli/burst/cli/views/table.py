"""Tables without lines that give up their least important columns where there is no room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from burst.cli.views.text import FAINT, cell

_GAP = 2


@dataclass
class Column:
    """One column: its cells, and when to leave it out."""

    title: str
    cells: list[Text | str] = field(default_factory=list)
    rank: int = 0
    """Columns of a higher rank go first where the terminal is narrow; 0 always stays."""
    justify: Literal["left", "right"] = "left"

    def __post_init__(self) -> None:
        self.cells = [cell(each) for each in self.cells]

    @property
    def width(self) -> int:
        return max([len(self.title), *(_length(each) for each in self.cells)])

    @property
    def empty(self) -> bool:
        return all(str(each) in ("", "–") for each in self.cells)


def fit(columns: Sequence[Column], width: int) -> list[Column]:
    """The columns that have something to say and fit into `width`, in their order."""
    kept = [c for c in columns if c.rank == 0 or not c.empty]
    while _total(kept) > width and any(c.rank for c in kept):
        kept.remove(max(kept, key=lambda c: c.rank))
    return kept


def table(columns: Sequence[Column], width: int) -> Table:
    """Those columns of `columns` that fit, as a table."""
    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style=FAINT)
    kept = fit(columns, width)
    for column in kept:
        made.add_column(column.title, justify=column.justify, no_wrap=True, overflow="ellipsis")
    for row in zip(*(column.cells for column in kept), strict=True):
        made.add_row(*row)
    return made


def facts(rows: Sequence[tuple[str, RenderableType]]) -> Table:
    """Names and what is to be said of them, for the head of a page."""
    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
    made.add_column(style=FAINT, no_wrap=True)
    made.add_column(overflow="fold")
    for name, said in rows:
        made.add_row(name, said)
    return made


def section(title: str, *parts: RenderableType) -> Group:
    """A blank line, a title, and what belongs to it."""
    return Group("", Text(title, style="bold"), *parts)


def _length(content: Text | str) -> int:
    return content.cell_len if isinstance(content, Text) else Text(content).cell_len


def _total(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + _GAP * max(0, len(columns) - 1)
