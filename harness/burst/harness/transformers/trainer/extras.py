"""What a Trainer of a derived class adds up beside what the Trainer does, as those of trl do with
the metrics that they log: numbers in its attributes, plain or in containers."""

from __future__ import annotations

import copy
import inspect
import re
from collections import deque
from collections.abc import Mapping, MutableMapping
from functools import cache
from typing import Any

_MOST = 100_000
"""Values of one attribute; what has more is no sum, but data."""


def taken(trainer: Any) -> dict[str, Any]:
    """Copies of those attributes, by name."""
    own = {
        name: value
        for name, value in vars(trainer).items()
        if name not in _of_trainer(_base(type(trainer))) and _is_plain(value, [_MOST])
    }
    return {name: copy.deepcopy(_plain(value)) for name, value in own.items()}


def put_back(trainer: Any, saved: Mapping[str, Any]) -> None:
    """Set them, within the containers that are there where there are some."""
    for name, value in saved.items():
        if name in vars(trainer):
            setattr(trainer, name, _put(getattr(trainer, name), value))


@cache
def _of_trainer(base: type) -> frozenset[str]:
    """The names that the Trainer's own code assigns."""
    return frozenset(re.findall(r"\bself\.(\w+)", inspect.getsource(base))) | {"_burst"}


def _base(kind: type) -> type:
    return next(each for each in kind.__mro__ if each.__module__ == "transformers.trainer")


def _is_plain(value: Any, left: list[int]) -> bool:
    left[0] -= 1
    if left[0] < 0:
        return False
    if value is None or isinstance(value, bool | int | float | str):
        return True
    if isinstance(value, dict):
        keys = all(isinstance(key, str | int) for key in value)
        return keys and all(_is_plain(each, left) for each in value.values())
    if isinstance(value, list | tuple | deque):
        return all(_is_plain(each, left) for each in value)
    return False


def _plain(value: Any) -> Any:
    """In the forms that a checkpoint has."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | deque):
        return [_plain(each) for each in value]
    return value


def _put(live: Any, saved: Any) -> Any:
    if isinstance(live, MutableMapping) and isinstance(saved, Mapping):
        for key in [key for key in live if key not in saved]:
            del live[key]
        for key, value in saved.items():
            live[key] = _put(live.get(key), value)
        return live
    if isinstance(live, list | deque) and isinstance(saved, list):
        live.clear()
        live.extend(saved)
        return live
    return tuple(saved) if isinstance(live, tuple) else saved
