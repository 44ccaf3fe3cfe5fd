"""What is wrong in a file, each with its place, and all of it in one error.

exp.yaml:4:30: searcher.max_trails is not a field of searcher
  4 | searcher: {name: random, max_trails: 16}
    |                          ^^^^^^^^^^
    = did you mean `max_trials`?
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from burst.core.errors import ConfigError

_WIDEST_LINE = 100


@dataclass(frozen=True)
class Source:
    """A text that was read: a file, or one `--set` of the command line."""

    name: str
    lines: tuple[str, ...]
    override: bool = False
    """Whether it was given on the command line, so that it wins over the file."""


@dataclass(frozen=True)
class Place:
    """A stretch of one line, line and column counted from 1."""

    source: Source
    line: int
    column: int
    width: int = 1

    def __str__(self) -> str:
        where = f":{self.line}:{self.column}"
        return self.source.name + ("" if self.source.override else where)


@dataclass(frozen=True)
class Problem:
    """One mistake in a file."""

    place: Place
    path: str
    """Dotted, as written: `resources.pools.0`; empty for the file as a whole."""
    message: str
    value: str = ""
    """What was written there, in YAML; empty where it is too long to show or nothing was."""
    nearest: str = ""
    """The valid name or value nearest to what was written."""
    hint: str = ""

    @property
    def file(self) -> str:
        return self.place.source.name

    @property
    def line(self) -> int:
        return self.place.line

    @property
    def column(self) -> int:
        return self.place.column

    @property
    def advice(self) -> str:
        """One line on how to mend it; may be empty."""
        asked = f"did you mean `{self.nearest}`?" if self.nearest else ""
        return " ".join(filter(None, (asked, self.hint)))

    def __str__(self) -> str:
        head = f"{self.place}: {self.message}"
        return "\n".join([head, *_excerpt(self.place, self.advice)])


class ConfigFileError(ConfigError):
    """A file that people write has mistakes; `problems` holds every one, in the file's order."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=_order))
        count = len(self.problems)
        counted = "one mistake" if count == 1 else f"{count} mistakes"
        blocks = "\n\n".join(str(problem) for problem in self.problems)
        only_settings = all(problem.place.source.override for problem in self.problems)
        there = f"the command line has {counted} in --set" if only_settings else None
        super().__init__(f"{there or f'{file} has {counted}'}\n\n{blocks}")

    def __str__(self) -> str:
        return self.what

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.file, self.problems))


class ExperimentFileError(ConfigFileError):
    """An experiment file has mistakes."""


class ClusterFileError(ConfigFileError):
    """A cluster file has mistakes."""


def nearest(written: str, valid: Iterable[str], cutoff: float = 0.6) -> str:
    """The one of `valid` that `written` most likely meant; empty where none is near."""
    options = list(valid)
    lowered = {option.lower().replace("-", "_"): option for option in reversed(options)}
    key = written.lower().replace("-", "_").strip()
    if key in lowered:
        return lowered[key]
    found = difflib.get_close_matches(key, list(lowered), n=1, cutoff=cutoff)
    return lowered[found[0]] if found else ""


def listed(names: Sequence[str]) -> str:
    """`a`, `b` or `c`."""
    quoted = [f"`{name}`" for name in names]
    return " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1]))) if quoted else ""


def _order(problem: Problem) -> tuple[bool, int, int]:
    return (problem.place.source.override, problem.line, problem.column)


def _excerpt(place: Place, advice: str) -> list[str]:
    """The line with a caret under the mistake, and the advice below."""
    label = place.source.name if place.source.override else str(place.line)
    gutter = " " * (len(label) + 2)
    tail = [f"{gutter}  = {advice}"] if advice else []
    if place.line > len(place.source.lines):
        return tail
    line = place.source.lines[place.line - 1].replace("\t", " ")
    line = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line).rstrip()
    start = place.column - 1
    cut = max(0, start - _WIDEST_LINE // 2) if len(line) > _WIDEST_LINE else 0
    shown = line[cut : cut + _WIDEST_LINE]
    before = _columns(shown[: start - cut])
    marked = max(1, _columns(shown[start - cut : start - cut + place.width]))
    return [
        f"  {label} | {shown}",
        f"{gutter} | {' ' * before}{'^' * marked}",
        *(f"{gutter} = {advice}" for _ in tail),
    ]


def _columns(text: str) -> int:
    """Terminal columns of a text: wide characters take two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)
