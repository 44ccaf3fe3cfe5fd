"""A failure as its owner wants to see it: their own traceback first, then the fact in a line."""

from __future__ import annotations

import re

from rich.console import Group, RenderableType
from rich.text import Text

from burst.cli.views import text
from burst.core.model import Failure
from burst.core.units import counted

_CODE = re.compile(r'(File ")[^"]*/alloc-\w+/code/')
"""Where an agent has put the user's code: of no interest, and gone by now."""
_MODULE = re.compile(r"^[\w.]+\.\Z", re.MULTILINE)
"""What is left of `package.module.Error: …` without the exception's own name."""
LINES = 40
"""Lines of a traceback on a page; `burst logs` has them all."""


def failure(found: Failure, trial: str) -> RenderableType:
    """The traceback, the exception in red, and where it happened."""
    headline = headline_of(found)
    trace = _CODE.sub(r"\1", found.traceback.rstrip())
    lines = _MODULE.sub("", trace.removesuffix(headline)).rstrip().splitlines()
    parts: list[RenderableType] = []
    if len(lines) > LINES:
        skipped = len(lines) - LINES
        hint = f"… {counted(skipped, 'line')} before these: `burst logs {trial}`"
        parts.append(Text(hint, style=text.FAINT))
    parts += [Text(line) for line in lines[-LINES:]]
    parts.append(Text(headline, style="red bold"))
    return Group(*parts, Text(_where(found, trial), style=text.FAINT))


def headline_of(found: Failure) -> str:
    """`ValueError: the learning rate is negative`."""
    return f"{found.kind}: {found.message}" if found.message else found.kind or "failed"


def _where(found: Failure, trial: str) -> str:
    pieces = [f"in {trial}"]
    if found.rank is not None:
        pieces.append(f"rank {found.rank}")
    if found.exit_code is not None:
        pieces.append(f"exit status {found.exit_code}")
    return ", ".join(pieces)
