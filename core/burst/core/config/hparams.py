"""Hyperparameter spaces: what is constant in one, a random point of it, and its grid.

A space nests: a mapping with a `type` of const, int, double, log or categorical is a
hyperparameter, every other mapping is a level, and anything else is a constant. Levels are walked
with their keys in sorted order, so that a seed means one sequence of points however the file was
written. The rules of the grid are Determined's (`int` points are spaced evenly, then rounded half
away from zero; a count beyond the range is the whole range; a count of 1 is the midpoint).
"""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping

from pydantic import TypeAdapter, ValidationError

from burst.core.config.experiment import (
    CategoricalHp,
    ConstHp,
    DoubleHp,
    Hyperparameter,
    IntHp,
    LogHp,
)
from burst.core.errors import ConfigError
from burst.core.model import Json

Leaf = ConstHp | IntHp | DoubleHp | LogHp | CategoricalHp
TYPES: Mapping[str, type[Leaf]] = {
    "const": ConstHp,
    "int": IntHp,
    "double": DoubleHp,
    "log": LogHp,
    "categorical": CategoricalHp,
}
_ADAPTER: TypeAdapter[Leaf] = TypeAdapter(Hyperparameter)


def sample(space: Mapping[str, Json], rng: random.Random) -> dict[str, Json]:
    """A random point: `int` uniform with both ends, `double` uniform, `log` base**uniform,
    `categorical` uniform. Draws from `rng` once a hyperparameter that is not constant.

    Raises:
        ConfigError: for a space that `load_experiment` would refuse.
    """
    return _map(space, lambda leaf, _: _draw(leaf, rng))


def grid(space: Mapping[str, Json]) -> list[dict[str, Json]]:
    """The Cartesian product of every hyperparameter's points, the first name changing slowest.

    Raises:
        ConfigError: where an `int`, `double` or `log` has no `count`.
    """
    axes = [_points(leaf, name) for name, leaf in leaves(space)]
    return [_fill(space, iter(choice)) for choice in itertools.product(*axes)]


def grid_size(space: Mapping[str, Json]) -> int:
    """How many points `grid` returns, without making them."""
    return math.prod(_axis_size(leaf, name) for name, leaf in leaves(space))


def is_constant(space: Mapping[str, Json]) -> bool:
    """Whether there is nothing to choose: `categorical` counts as a choice even with one value."""
    return all(isinstance(leaf, ConstHp) for _, leaf in leaves(space))


def constants(space: Mapping[str, Json]) -> dict[str, Json]:
    """The point of a space without choices.

    Raises:
        ConfigError: where there is something to choose.
    """

    def value(leaf: Leaf, name: str) -> Json:
        if isinstance(leaf, ConstHp):
            return copy.deepcopy(leaf.val)
        raise ConfigError(
            f"hyperparameter {name} is not constant",
            why=f"it is of type {leaf.type}, and the searcher `single` runs one trial",
            mend="give it one value, or use the searcher grid, random or adaptive_asha",
        )

    return _map(space, value)


def is_leaf(value: Json) -> bool:
    """Whether a mapping is one hyperparameter, and not a level of them."""
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


def leaves(space: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, Leaf]]:
    """Every hyperparameter with its dotted name, constants among them, names in sorted order."""
    for key in sorted(space):
        value, name = space[key], f"{prefix}{key}"
        if isinstance(value, Mapping) and not is_leaf(value):
            yield from leaves(value, f"{name}.")
        else:
            yield name, _read(value, name)


def _map(
    space: Mapping[str, Json], choose: Callable[[Leaf, str], Json], prefix: str = ""
) -> dict[str, Json]:
    """The space with every leaf replaced, visited in the order of `leaves`."""
    point: dict[str, Json] = {}
    for key in sorted(space):
        value, name = space[key], f"{prefix}{key}"
        if isinstance(value, Mapping) and not is_leaf(value):
            point[key] = _map(value, choose, f"{name}.")
        else:
            point[key] = choose(_read(value, name), name)
    return point


def _fill(space: Mapping[str, Json], values: Iterator[Json]) -> dict[str, Json]:
    return _map(space, lambda leaf, name: next(values))


def _read(value: Json, name: str) -> Leaf:
    if not is_leaf(value):
        return ConstHp(val=value)
    try:
        return _ADAPTER.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            f"hyperparameter {name} cannot be read",
            why=f"{'.'.join(map(str, first['loc']))}: {first['msg']}",
            mend=f"a hyperparameter's type is one of {', '.join(TYPES)}",
        ) from None


def _draw(leaf: Leaf, rng: random.Random) -> Json:
    match leaf:
        case ConstHp():
            return copy.deepcopy(leaf.val)
        case IntHp():
            return rng.randint(leaf.minval, leaf.maxval)
        case DoubleHp():
            return rng.uniform(leaf.minval, leaf.maxval)
        case LogHp():
            return leaf.base ** rng.uniform(leaf.minval, leaf.maxval)
        case CategoricalHp():
            return copy.deepcopy(leaf.vals[rng.randrange(len(leaf.vals))])


def _points(leaf: Leaf, name: str) -> list[Json]:
    match leaf:
        case ConstHp():
            return [copy.deepcopy(leaf.val)]
        case CategoricalHp():
            return [copy.deepcopy(value) for value in leaf.vals]
        case IntHp():
            return list(_whole_points(leaf.minval, leaf.maxval, _axis_size(leaf, name)))
        case DoubleHp():
            return _even_points(leaf.minval, leaf.maxval, _axis_size(leaf, name))
        case LogHp():
            exponents = _even_points(leaf.minval, leaf.maxval, _axis_size(leaf, name))
            return [leaf.base**exponent for exponent in exponents]


def _axis_size(leaf: Leaf, name: str) -> int:
    if isinstance(leaf, ConstHp):
        return 1
    if isinstance(leaf, CategoricalHp):
        return len(leaf.vals)
    if leaf.count is None:
        raise ConfigError(
            f"hyperparameter {name} has no count",
            why=f"the searcher `grid` has to know how many points of a {leaf.type} to try",
            mend="add a count, such as `count: 5`",
        )
    return (
        min(leaf.count, leaf.maxval - leaf.minval + 1) if isinstance(leaf, IntHp) else leaf.count
    )


def _whole_points(low: int, high: int, count: int) -> Iterator[int]:
    """In whole arithmetic, so that a range beyond 2**53 is exact too."""
    if count == 1:
        yield _round_half_away(low + high, 2)
        return
    for index in range(count):
        yield _round_half_away(low * (count - 1) + index * (high - low), count - 1)


def _round_half_away(numerator: int, denominator: int) -> int:
    rounded = (2 * abs(numerator) + denominator) // (2 * denominator)
    return rounded if numerator >= 0 else -rounded


def _even_points(low: float, high: float, count: int) -> list[float]:
    if count == 1:
        return [low + (high - low) / 2]
    inner = [low + index * (high - low) / (count - 1) for index in range(1, count - 1)]
    return [low, *inner, high]
