"""YAML as a tree: which scalars are numbers, where values stand, what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from burst.core.config.document import Node, Report, read_yaml
from burst.core.config.problems import Source


def _read(text: str) -> tuple[Node | None, Report]:
    report = Report()
    return read_yaml(text, Source("f.yaml", tuple(text.splitlines())), report), report


def _plain(text: str) -> Any:
    root, report = _read(text)
    assert report.problems == []
    assert root is not None
    return root.plain()


def _mistake(text: str) -> str:
    root, report = _read(text)
    assert len(report.problems) == 1, (root, report.problems)
    return str(report.problems[0])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 100000.0),
        (".5", 0.5),
        ("-2.", -2.0),
        ("0x10", 16),
        ("0o17", 15),
        ("007", 7),
        ("+3", 3),
        ("true", True),
        ("FALSE", False),
        ("off", "off"),
        ("yes", "yes"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        ("~", None),
        ("null", None),
        ("''", ""),
        ("'1'", "1"),
        ("!!str 1", "1"),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
    ],
)
def test_scalars_are_read_by_yaml_1_2(text: str, value: object) -> None:
    found = _plain(f"x: {text}\n")["x"]
    assert (found, type(found)) == (value, type(value))


def test_values_and_keys_know_their_places_and_paths() -> None:
    root, _ = _read("a:\n  b: [1, {c: xyz}]\n")
    assert root is not None
    b = root.child("a", "b")
    assert b is not None
    assert str(b.key) == "f.yaml:2:3"
    c = b.value[1].child("c")
    assert (str(c.place), c.place.width, c.path, c.shown) == ("f.yaml:2:14", 3, "a.b.1.c", "xyz")


def test_anchors_and_merges_work_and_nearer_keys_win() -> None:
    text = "x: &x {p: 1, q: 2}\nz: &z {q: 5, r: 6}\ny: {<<: [*x, *z], p: 3}\nw: *x\n"
    plain = _plain(text)
    assert plain["y"] == {"p": 3, "q": 2, "r": 6}
    assert plain["w"] == {"p": 1, "q": 2}


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\na: 2\n", "f.yaml:2:1", "`a` is written twice"),
        ("a: {b: 1, b: 2}\n", "f.yaml:1:11", "`a.b` is written twice"),
        ("a:\n\tb: 1\n", "f.yaml:2:1", "a tab cannot indent"),
        ("a: b: c\n", "f.yaml:1:5", "no value can begin"),
        ("a: {b: 1\nc: 2\n", "f.yaml:1:4", "`{` is not closed"),
        ("a: [1, 2\n", "f.yaml:1:4", "`[` is not closed"),
        ("a: [1, b: c: d]\n", "f.yaml:1:12", "closing bracket is missing before this"),
        ('a: "\\ud800"\n', "f.yaml:1:4", "half a character"),
        ("a: 'x\n", "f.yaml:1:4", "quoted text is not closed"),
        ("a: 1\n---\nb: 1\n", "f.yaml:2:1", "second document"),
        ("a: 1\n- b\n", "f.yaml:2:1", "does not fit"),
        ("a: \x07\n", "f.yaml:1:4", "control character"),
        ("a: [x, ${hp.lr}]\n", "f.yaml:1:9", 'quote the text: "${hp.…}"'),
        ("a: %x\n", "f.yaml:1:4", "put it in quotes"),
        ("a: *b\n", "f.yaml:1:4", "undefined alias"),
        ("? [a]\n: 1\n", "f.yaml:1:3", "a key is one word"),
        ("a: !!python/object:os.system x\n", "f.yaml:1:4", "means nothing here"),
        ("a: !!int x\n", "f.yaml:1:4", "not a number"),
        ("a: " + "9" * 5000, "f.yaml:1:4", "not a number"),
        ("a: &a [*a]\n", "f.yaml:1:1", "contains itself"),
        ("a: {<<: 3}\n", "f.yaml:1:9", "merges mappings"),
        ("[" * 5000, "f.yaml:1:1", "nests too deeply"),
        ("a: '" + "x" * 1_000_001 + "'", "f.yaml:1:1", "larger than a megabyte"),
    ],
)
def test_bad_yaml_has_a_place_and_plain_words(text: str, place: str, words: str) -> None:
    said = _mistake(text)
    assert said.startswith(f"{place}: ")
    assert words in said


def test_a_file_that_explodes_by_its_aliases_is_refused() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "aliases expanded" in _mistake("\n".join(lines))


def test_the_caret_stands_under_wide_and_long_lines() -> None:
    report = Report()
    text = "日本: [" + "x, " * 80 + "y: z: w]"
    read_yaml(text, Source("f.yaml", (text,)), report)
    shown = str(report.problems[0]).splitlines()
    assert len(shown[1]) < 120
    column = shown[2].index("^")
    assert shown[1][column] == ":"


@given(st.text(max_size=200))
def test_no_text_at_all_makes_the_reader_fail(text: str) -> None:
    root, report = _read(text)
    assert root is not None or report.problems or yaml.compose(text) is None


KEYS = st.text(max_size=80)
"""YAML's keys have at most 1,024 characters as they are written, which may be 12 for one."""
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abcdefgh", min_size=1, max_size=40), JSON, min_size=1, max_size=3))
def test_json_is_read_as_it_is(value: dict[str, Any]) -> None:
    assert _plain(json.dumps(value)) == value
