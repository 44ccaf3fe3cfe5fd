"""The two streams as rich consoles: data on stdout, everything else on stderr.

`NO_COLOR` turns colour off, `FORCE_COLOR` turns it on, both when set to anything; without them a
terminal has colour and a pipe has none.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 400
"""Columns of a stream that is no terminal: wide enough that a table is never cut."""


def wants_colour(environ: Mapping[str, str], stream: IO[str]) -> bool:
    if environ.get("NO_COLOR"):
        return False
    return bool(environ.get("FORCE_COLOR")) or is_terminal(environ, stream)


def is_terminal(environ: Mapping[str, str], stream: IO[str]) -> bool:
    return stream.isatty() and environ.get("TERM") != "dumb"


def console(environ: Mapping[str, str], stream: IO[str] | None = None) -> Console:
    """A rich console on `stream` (default: stdout as it is now) under the rules above."""
    from rich.console import Console

    stream = sys.stdout if stream is None else stream
    terminal = is_terminal(environ, stream)
    colour = wants_colour(environ, stream)
    return Console(
        file=stream,
        width=_width(environ, terminal),
        force_terminal=terminal or colour,
        no_color=not colour,
        highlight=False,
        emoji=False,
        markup=False,
        soft_wrap=False,
        legacy_windows=False,
    )


def _width(environ: Mapping[str, str], terminal: bool) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    return shutil.get_terminal_size().columns if terminal else PIPE_WIDTH
