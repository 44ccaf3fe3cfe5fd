"""YAML as a tree whose every value knows where it was written.

Scalars are read by YAML 1.2's core schema, as Determined's own reader does: `1e-3` is a number,
`off` and `yes` are text. Nothing is ever constructed from a tag. Duplicate keys are mistakes,
anchors and merge keys work, and a file that would expand without end is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from burst.core.config.problems import Place, Problem, Source
from burst.core.config.syntax import explain_syntax, explain_unreadable

_LARGEST_FILE_CHARS = 1_000_000
_MOST_VALUES = 100_000
_LONGEST_SHOWN = 60
_CORE = "tag:yaml.org,2002:"

NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
INT = re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$")
FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_MERGE = re.compile(r"^<<$")


class _Loader(yaml.SafeLoader):
    """Composes with YAML 1.2's scalars in place of 1.1's."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


def add_scalars(kind: Any) -> None:
    """Teach a PyYAML loader or dumper class the scalars that files are read with."""
    kind.add_implicit_resolver(_CORE + "bool", BOOL, list("tTfF"))
    kind.add_implicit_resolver(_CORE + "null", NULL, ["~", "n", "N", ""])
    kind.add_implicit_resolver(_CORE + "int", INT, list("-+0123456789"))
    kind.add_implicit_resolver(_CORE + "float", FLOAT, list("-+0123456789."))


add_scalars(_Loader)
_Loader.add_implicit_resolver(_CORE + "merge", _MERGE, ["<"])


@dataclass
class Node:
    """A value: a scalar, a list of nodes, or a mapping of nodes."""

    value: Any
    place: Place
    path: str = ""
    """Dotted, as written; a node that is moved elsewhere keeps it."""
    key: Place | None = None
    """Where its key is written, if it is in a mapping."""
    bad: bool = False
    """Whether a mistake was found at it, so that nothing more needs to be said of it."""

    @property
    def shown(self) -> str:
        """What was written, if it is short."""
        if isinstance(self.value, dict | list):
            return ""
        line = self.place.source.lines[self.place.line - 1 : self.place.line]
        start = self.place.column - 1
        text = "".join(line)[start : start + self.place.width].strip()
        return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def child(self, *keys: str) -> Node | None:
        """The node under these keys, if it is there."""
        node: Node | None = self
        for key in keys:
            node = node.value.get(key) if node and isinstance(node.value, dict) else None
        return node

    def walk(self) -> Iterator[Node]:
        """Itself and everything below."""
        yield self
        below = self.value.values() if isinstance(self.value, dict) else self.value
        for node in below if isinstance(self.value, dict | list) else ():
            yield from node.walk()


@dataclass
class Report:
    """What was found on the way: mistakes, and what only needs a word."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)

    def wrong(
        self, node: Node, message: str, *, nearest: str = "", hint: str = "", at_key: bool = False
    ) -> None:
        """Record a mistake at a node, or at its key where that says it better."""
        compound = isinstance(node.value, dict | list)
        place = node.key if node.key and (at_key or compound) else node.place
        shown = "" if at_key else node.shown
        self.problems.append(Problem(place, node.path, message, shown, nearest, hint))
        node.bad = True

    def warn(self, node: Node, message: str) -> None:
        place = node.key or node.place
        self.notes.append((place.line, f"{place}: {message}"))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What only needs a word, in the order of the file."""
        return tuple(text for _, text in sorted(self.notes, key=lambda note: note[0]))


def read_yaml(text: str, source: Source, report: Report, shift: int = 0) -> Node | None:
    """The tree of a text, or None with the reasons in `report`.

    Args:
        shift: columns before the text in the source's line, for values of the command line.
    """
    if len(text) > _LARGEST_FILE_CHARS:
        _whole(report, source, "this file is larger than a megabyte", "data belongs elsewhere")
        return None
    try:
        composed = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        report.problems.append(explain_syntax(error, source, shift))
        return None
    except yaml.reader.ReaderError as error:
        report.problems.append(explain_unreadable(error, text, source))
        return None
    except RecursionError:
        _whole(report, source, "this file nests too deeply to be read")
        return None
    builder = _Builder(source, report, shift)
    try:
        return None if composed is None else builder.build(composed, "", None)
    except _GivenUp as error:
        _whole(report, source, str(error))
        return None


class _GivenUp(Exception):
    pass


class _Builder:
    """Turns PyYAML's nodes into ours."""

    def __init__(self, source: Source, report: Report, shift: int) -> None:
        self._source = source
        self._report = report
        self._shift = shift
        self._count = 0
        self._open: list[int] = []

    def build(self, raw: yaml.Node, path: str, key: Place | None) -> Node:
        self._count += 1
        if self._count > _MOST_VALUES:
            raise _GivenUp(f"this file holds more than {_MOST_VALUES:,} values, aliases expanded")
        if id(raw) in self._open:
            raise _GivenUp(f"an alias at `{path}` contains itself")
        self._open.append(id(raw))
        node = Node(None, self._place(raw), path, key)
        if isinstance(raw, yaml.MappingNode):
            node.value = self._mapping(raw, path)
        elif isinstance(raw, yaml.SequenceNode):
            node.value = [
                self.build(item, _join(path, str(i)), None) for i, item in enumerate(raw.value)
            ]
        else:
            node.value = self._scalar(raw, node)
        self._open.pop()
        return node

    def _mapping(self, raw: yaml.MappingNode, path: str) -> dict[str, Node]:
        own: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key, value in raw.value:
            place = self._place(key)
            if key.tag == _CORE + "merge":
                self._merge(value, path, merged)
                continue
            if not isinstance(key, yaml.ScalarNode):
                where = Node(None, place, path)
                self._report.wrong(where, "a key is one word, not a list or a mapping")
                continue
            name = self._text(key.value, Node(None, place, path))
            node = self.build(value, _join(path, name), place)
            if name in own:
                first = own[name].key
                self._report.wrong(
                    node,
                    f"`{node.path}` is written twice",
                    hint=f"the first is at line {first.line if first else '?'}",
                    at_key=True,
                )
                continue
            own[name] = node
        return {**merged, **own}

    def _merge(self, raw: yaml.Node, path: str, into: dict[str, Node]) -> None:
        """`<<: *a` or `<<: [*a, *b]`; earlier ones win, and keys written beside them do."""
        parts = raw.value if isinstance(raw, yaml.SequenceNode) else [raw]
        for part in parts:
            node = self.build(part, path, None)
            if not isinstance(node.value, dict):
                self._report.wrong(node, "`<<` merges mappings, and this is none")
                continue
            for name, value in node.value.items():
                into.setdefault(name, value)

    def _scalar(self, raw: yaml.Node, node: Node) -> Any:
        text, kind = raw.value, raw.tag.removeprefix(_CORE)
        if kind == "null":
            return None
        if kind == "bool" and BOOL.match(text):
            return text.lower() == "true"
        if kind in ("int", "float"):
            try:
                return (
                    int(text, 0 if text[:2] in ("0o", "0x") else 10)
                    if kind == "int"
                    else (float(re.sub(r"\.(?=(?i:inf|nan))", "", text)))
                )
            except ValueError:
                self._report.wrong(node, f"{_where(node)} is not a number")
                return None
        if kind != "str":
            self._report.wrong(node, f"the tag `{raw.tag}` means nothing here", hint="remove it")
        return self._text(text, node)

    def _text(self, text: str, node: Node) -> str:
        """Text whose escaped surrogate pairs, JSON's way of writing a character, are joined."""
        if not _SURROGATE.search(text):
            return text
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._report.wrong(node, "an escape in this text is half a character")
            return ""

    def _place(self, raw: yaml.Node) -> Place:
        start, end = raw.start_mark, raw.end_mark
        lines = self._source.lines
        shift = self._shift if start.line == 0 else 0
        if start.line == end.line:
            width = end.column - start.column
        else:
            line = lines[start.line] if start.line < len(lines) else ""
            width = len(line.rstrip()) - start.column - shift
        return Place(self._source, start.line + 1, start.column + shift + 1, max(1, width))


def _where(node: Node) -> str:
    return f"`{node.path}`" if node.path else "this"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _whole(report: Report, source: Source, message: str, hint: str = "") -> None:
    report.problems.append(Problem(Place(source, 1, 1), "", message, hint=hint))
