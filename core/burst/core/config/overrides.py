"""Settings of the command line: `--set searcher.max_trials=4` on top of a file."""

from __future__ import annotations

from collections.abc import Sequence

from burst.core.config.document import Node, Report, read_yaml
from burst.core.config.problems import Place, Source, listed, nearest

_NAME = "--set"


def apply_overrides(root: Node, overrides: Sequence[str], report: Report) -> None:
    """Set each `dotted.path=value` in `root`; the value is read as YAML, the last one wins.

    A path may go through lists by index, and through what the file does not have yet; whether its
    names mean anything is decided with the rest of the file. A hyperparameter has to be in the
    file, because a misspelt one would train the wrong thing without a word.
    """
    for text in overrides:
        source = Source(_NAME, (text,), override=True)
        path, equals, value = text.partition("=")
        here = Node(None, Place(source, 1, 1, max(1, len(path))), path)
        if not equals or not all(part.strip() for part in path.split(".")):
            report.wrong(here, f"`{text}` is not a setting", hint="write `--set a.b=value`")
            continue
        found = len(report.problems)
        node = read_yaml(value, source, report, shift=len(path) + 1)
        if len(report.problems) == found:
            _set(root, path, node or Node(None, Place(source, 1, len(path) + 2)), report)


def _set(root: Node, path: str, node: Node, report: Report) -> None:
    parts = [part.strip() for part in path.split(".")]
    source, start = node.place.source, 1
    parent = root
    for depth, part in enumerate(parts):
        key = Place(source, 1, start, len(part))
        start += len(part) + 1
        last = depth == len(parts) - 1
        there = Node(None, key, ".".join(parts[: depth + 1]), key)
        if last:
            _place(node, there)
            there = node
        if isinstance(parent.value, list):
            below = _in_list(parent, part, there, last, report)
        elif isinstance(parent.value, dict):
            below = _in_mapping(parent, part, there, last, report)
        else:
            shown = f", it is `{parent.shown}`" if parent.shown else ""
            said = f"`{parent.path}` has nothing below it{shown}"
            report.wrong(there, said, hint="set it as a whole", at_key=True)
            return
        if below is None:
            return
        parent = below


def _place(node: Node, there: Node) -> None:
    """Give the node that a value became its path and key."""
    for below in node.walk():
        below.path = f"{there.path}.{below.path}" if below.path else there.path
    node.key = there.key


def _in_mapping(parent: Node, name: str, there: Node, last: bool, report: Report) -> Node | None:
    below: Node | None = parent.value.get(name)
    if below is None and parent.path.split(".")[0] == "hyperparameters" and not _is_choice(parent):
        known = list(parent.value)
        near = nearest(name, known)
        hint = "" if near or not known else f"there are {listed(known)}"
        said = f"the file has no hyperparameter `{there.path.partition('.')[2]}`"
        report.wrong(there, said, nearest=near, hint=hint, at_key=True)
        return None
    if last:
        parent.value[name] = there
        return there
    if below is None or below.value is None:
        there.value = {}
        below = parent.value[name] = there
    return below


def _is_choice(node: Node) -> bool:
    kind = node.child("type")
    return kind is not None and isinstance(kind.value, str)


def _in_list(parent: Node, name: str, there: Node, last: bool, report: Report) -> Node | None:
    count = len(parent.value)
    index = int(name) if name.isdecimal() else -1
    if not 0 <= index < count + last:
        said = f"`{parent.path}` is a list of {count}, and `{name}` is no place in it"
        report.wrong(there, said, hint=f"places are 0 to {count - 1 + last}", at_key=True)
        return None
    if last:
        parent.value[index : index + 1] = [there]
    below: Node = parent.value[index]
    return below
