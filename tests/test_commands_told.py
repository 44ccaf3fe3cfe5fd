"""What the program itself says to type can be typed: every `burst …` in a string of its source."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_documentation import ROOT, check_call

ROOMS = ("core", "harness", "runner", "infra", "cli")
CALL = re.compile(r"`(burst [^`]+)`")


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Every string and docstring with its line; what an f-string fills in is `…`."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
             for part in ast.walk(node) if part is not node}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            texts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield node.lineno, "".join(map(str, texts))
        elif isinstance(node, ast.Constant) and id(node) not in parts:
            yield node.lineno, str(node.value)


def calls(source: str) -> Iterator[tuple[int, str]]:
    for line, text in strings(source):
        for call in CALL.findall(" ".join(text.split())):
            yield line, call


def wrong(call: str) -> str:
    """What cannot be typed so; empty if all of it can."""
    return check_call(tuple(shlex.split(call)[1:]))


def test_every_command_that_the_program_names_is_there() -> None:
    told = {
        f"{path.relative_to(ROOT)}:{line}: {call}": wrong(call)
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for line, call in calls(Path(path).read_text())
    }
    assert len(told) > 50
    assert {place: problem for place, problem in told.items() if problem} == {}


@pytest.mark.parametrize(
    "source",
    [
        'mend = "type `burst upp`"',
        'mend = f"`burst resume {id} --hard`"',
        'mend = ("type `burst pool "\n        "resum`")',
        'def f() -> None:\n    """What `burst\n    fly` does."""',
    ],
)
def test_a_command_that_is_none_would_be_seen(source: str) -> None:
    ((_, call),) = calls(source)
    assert wrong(call)
