"""Sampling and grids: Determined's rules, one meaning of a seed, nothing shared between points."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.config import hparams
from burst.core.errors import ConfigError

JSON = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers(), max_size=2)


def _range(low: st.SearchStrategy[Any], kind: str) -> st.SearchStrategy[dict[str, Any]]:
    ends = st.tuples(low, low).filter(lambda pair: pair[0] < pair[1])
    return st.tuples(ends, st.integers(1, 5)).map(
        lambda both: {
            "type": kind,
            "minval": both[0][0],
            "maxval": both[0][1],
            "count": both[1],
        }
    )


WHOLE = st.integers(-(10**12), 10**12)
LEAVES = st.one_of(
    JSON,
    JSON.map(lambda value: {"type": "const", "val": value}),
    _range(WHOLE, "int"),
    _range(st.floats(-1e6, 1e6), "double"),
    _range(st.floats(-10, 10), "log").map(lambda leaf: {**leaf, "base": 10.0}),
    st.lists(JSON, min_size=1, max_size=3).map(lambda v: {"type": "categorical", "vals": v}),
)
NAMES = st.text("abcdef", min_size=1, max_size=3)
SPACES = st.dictionaries(
    NAMES, st.one_of(LEAVES, st.dictionaries(NAMES, LEAVES, max_size=2)), max_size=3
)


def _inside(space: Any, point: Any) -> bool:
    if not isinstance(space, dict):
        return bool(space == point)
    if not hparams.is_leaf(space):
        return space.keys() == point.keys() and all(_inside(space[k], point[k]) for k in space)
    match space["type"]:
        case "const":
            return bool(space["val"] == point)
        case "categorical":
            return point in space["vals"]
        case "int":
            return isinstance(point, int) and space["minval"] <= point <= space["maxval"]
        case "double":
            return bool(space["minval"] <= point <= space["maxval"])
        case _:
            exponent = math.log10(point)
            return bool(space["minval"] - 1e-9 <= exponent <= space["maxval"] + 1e-9)


@given(SPACES, st.integers(0, 2**31))
def test_a_sample_lies_in_its_space_and_keeps_its_shape(space: dict[str, Any], seed: int) -> None:
    assert _inside(space, hparams.sample(space, random.Random(seed)))


@given(SPACES, st.integers(0, 2**31))
def test_a_seed_means_the_same_however_the_file_is_ordered(
    space: dict[str, Any], seed: int
) -> None:
    turned = {
        key: dict(reversed(value.items())) if isinstance(value, dict) else value
        for key, value in reversed(space.items())
    }
    first = hparams.sample(space, random.Random(seed))
    assert hparams.sample(turned, random.Random(seed)) == first


@given(SPACES)
def test_a_grid_has_its_size_and_every_point_lies_in_the_space(space: dict[str, Any]) -> None:
    points = hparams.grid(space)
    assert len(points) == hparams.grid_size(space)
    assert all(_inside(space, point) for point in points)


@given(WHOLE, st.integers(1, 40), st.integers(1, 60))
def test_whole_points_are_distinct_and_reach_both_ends(low: int, width: int, count: int) -> None:
    leaf = {"type": "int", "minval": low, "maxval": low + width, "count": count}
    values = [point["x"] for point in hparams.grid({"x": leaf})]
    assert len(values) == min(count, width + 1)
    assert values == sorted(set(values))
    if len(values) > 1:
        assert (values[0], values[-1]) == (low, low + width)


@pytest.mark.parametrize(
    ("leaf", "points"),
    [
        ({"type": "int", "minval": 0, "maxval": 10, "count": 3}, [0, 5, 10]),
        ({"type": "int", "minval": 0, "maxval": 3, "count": 3}, [0, 2, 3]),
        ({"type": "int", "minval": -3, "maxval": 0, "count": 3}, [-3, -2, 0]),
        ({"type": "int", "minval": 1, "maxval": 4, "count": 100}, [1, 2, 3, 4]),
        ({"type": "int", "minval": 1, "maxval": 4, "count": 1}, [3]),
        ({"type": "double", "minval": 0.0, "maxval": 1.0, "count": 5}, [0, 0.25, 0.5, 0.75, 1]),
        ({"type": "double", "minval": 0.0, "maxval": 1.0, "count": 1}, [0.5]),
        ({"type": "log", "minval": -3, "maxval": -1, "count": 3}, [0.001, 0.01, 0.1]),
        ({"type": "log", "base": 2, "minval": 0, "maxval": 4, "count": 1}, [4]),
        ({"type": "categorical", "vals": ["a", [1], None]}, ["a", [1], None]),
        ({"type": "const", "val": {"a": 1}}, [{"a": 1}]),
        (7, [7]),
        ([1, 2], [[1, 2]]),
    ],
)
def test_the_points_of_one_hyperparameter(leaf: Any, points: list[Any]) -> None:
    assert [point["x"] for point in hparams.grid({"x": leaf})] == points


def test_a_grid_is_the_product_over_sorted_names_and_keeps_empty_levels() -> None:
    space = {
        "b": {"type": "categorical", "vals": [1, 2]},
        "a": {"deep": {"type": "categorical", "vals": ["x", "y"]}, "empty": {}},
    }
    assert hparams.grid(space) == [
        {"a": {"deep": "x", "empty": {}}, "b": 1},
        {"a": {"deep": "x", "empty": {}}, "b": 2},
        {"a": {"deep": "y", "empty": {}}, "b": 1},
        {"a": {"deep": "y", "empty": {}}, "b": 2},
    ]


def test_an_empty_space_has_one_point() -> None:
    assert hparams.grid({}) == [{}]
    assert hparams.sample({}, random.Random(0)) == {}
    assert hparams.is_constant({})


def test_changing_one_point_changes_no_other() -> None:
    space = {"x": {"type": "categorical", "vals": [[1]]}, "y": [1]}
    first, second = hparams.sample(space, random.Random(0)), hparams.grid(space)[0]
    first["x"].append(2)
    first["y"].append(2)
    assert second == {"x": [1], "y": [1]}
    assert space == {"x": {"type": "categorical", "vals": [[1]]}, "y": [1]}


def test_constants_are_scalars_lists_and_const() -> None:
    space = {"a": 1, "b": [1, 2], "c": {"type": "const", "val": {"type": "x"}}, "d": {"e": None}}
    assert hparams.is_constant(space)
    assert hparams.constants(space) == {"a": 1, "b": [1, 2], "c": {"type": "x"}, "d": {"e": None}}


def test_a_choice_is_not_constant_even_with_one_value() -> None:
    space = {"a": {"b": {"type": "categorical", "vals": [1]}}}
    assert not hparams.is_constant(space)
    with pytest.raises(ConfigError, match=r"a\.b is not constant"):
        hparams.constants(space)


def test_a_grid_without_a_count_names_the_hyperparameter() -> None:
    with pytest.raises(ConfigError, match=r"a\.b has no count"):
        hparams.grid({"a": {"b": {"type": "int", "minval": 0, "maxval": 1}}})


def test_a_broken_hyperparameter_names_itself() -> None:
    with pytest.raises(ConfigError, match=r"a\.b cannot be read"):
        hparams.sample({"a": {"b": {"type": "gauss"}}}, random.Random(0))


def test_the_searches_of_one_seed_are_pinned() -> None:
    """A change of these numbers is a change of every seeded search that people have."""
    rng = random.Random(42)
    space = {
        "z": {"type": "int", "minval": 1, "maxval": 100},
        "a": {"type": "log", "base": 10, "minval": -4, "maxval": -1},
        "m": {"k": {"type": "categorical", "vals": ["x", "y", "z"]}, "c": 5},
        "d": {"type": "double", "minval": 0.0, "maxval": 1.0},
    }
    drawn = hparams.sample(space, rng)
    assert drawn["a"] == pytest.approx(0.008284768840933803)
    assert drawn["d"] == 0.025010755222666936
    assert (drawn["m"], drawn["z"]) == ({"k": "y", "c": 5}, 32)
    assert hparams.sample(space, rng) != drawn
