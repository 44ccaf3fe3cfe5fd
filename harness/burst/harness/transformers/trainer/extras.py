"""What a Trainer of a derived class, or a callback of the script's, keeps beside what the Trainer
does: the metrics that those of trl add up, a counter, batches generated ahead, averaged weights.
Numbers, text and tensors in attributes, plain or in containers, as far as training changes
them. What is set before the first step (a time, a setting) is each attempt's own."""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from typing import Any

import torch
from transformers.trainer_callback import ExportableState

_MOST = 100_000
"""Values of one attribute; what has more is no state of a training, but its data."""


class Extras:
    """Those of a Trainer and its callbacks, from the beginning of its training on."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._initial: dict[str, dict[str, Any]] = {}
        self._loaded: Mapping[str, Mapping[str, Any]] = {}

    def begin(self) -> None:
        """The callbacks have begun, and the first step comes."""
        self._initial = {
            place: {name: _plain(value) for name, value in _attributes(each)}
            for place, each in self._objects()
        }

    def state(self) -> dict[str, Any]:
        """By object and name, what is not as it was when the training began. Tensors are the live
        ones."""
        return {place: self._changed(place, each) for place, each in self._objects()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take it on, for `put_back`."""
        self._loaded = state

    def put_back(self) -> None:
        """After `begin`: set the attributes, within the containers that are there where there are
        some."""
        device = self._trainer.args.device
        for place, each in self._objects():
            for name, value in self._loaded.get(place, {}).items():
                setattr(each, name, _put(getattr(each, name, None), value, device))

    def _changed(self, place: str, each: Any) -> dict[str, Any]:
        initial = self._initial.get(place, {})
        return {
            name: _plain(value)
            for name, value in _attributes(each)
            if name not in initial or not _same(_plain(value), initial[name])
        }

    def _objects(self) -> Iterator[tuple[str, Any]]:
        """By a name that each has in every attempt."""
        if not type(self._trainer).__module__.startswith("transformers."):
            yield "trainer", self._trainer
        for number, each in enumerate(self._trainer.callback_handler.callbacks):
            module = type(each).__module__
            known = module.startswith(("transformers.", "burst.")) or isinstance(
                each, ExportableState
            )
            if not known:
                yield f"{number}.{module}.{type(each).__qualname__}", each


def _attributes(holder: Any) -> Iterator[tuple[str, Any]]:
    known = _of_trainer(_base(type(holder)))
    for name, value in getattr(holder, "__dict__", {}).items():
        if name not in known and _is_plain(value, [_MOST]):
            yield name, value


@cache
def _of_trainer(base: type | None) -> frozenset[str]:
    """The names that the Trainer's own code assigns; none for what is no Trainer."""
    if base is None:
        return frozenset()
    return frozenset(re.findall(r"\bself\.(\w+)", inspect.getsource(base))) | {"_burst"}


def _base(kind: type) -> type | None:
    found = (each for each in kind.__mro__ if each.__module__ == "transformers.trainer")
    return next(found, None)


def _is_plain(value: Any, left: list[int]) -> bool:
    left[0] -= 1
    if left[0] < 0:
        return False
    if value is None or isinstance(value, bool | int | float | str | torch.Tensor):
        return not isinstance(value, torch.nn.Parameter)
    if isinstance(value, dict):
        keys = all(isinstance(key, str | int) for key in value)
        return keys and all(_is_plain(each, left) for each in value.values())
    if isinstance(value, list | tuple | deque):
        return all(_is_plain(each, left) for each in value)
    return False


def _plain(value: Any) -> Any:
    """A copy, but for tensors, in the forms that a checkpoint has."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | deque):
        return [_plain(each) for each in value]
    return value


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return False  # it may have been changed in its place
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_same(*pair) for pair in pairs)
    return bool(one == other)


def _put(live: Any, saved: Any, device: torch.device) -> Any:
    if isinstance(saved, torch.Tensor):
        return saved.to(live.device if isinstance(live, torch.Tensor) else device)
    if isinstance(saved, Mapping):
        into: Any = live if isinstance(live, MutableMapping) else {}
        for key in [key for key in into if key not in saved]:
            del into[key]
        for key, value in saved.items():
            into[key] = _put(into.get(key), value, device)
        return into
    if isinstance(saved, list):
        values = [_put(None, each, device) for each in saved]
        if isinstance(live, list | deque):
            live.clear()
            live.extend(values)
            return live
        return tuple(values) if isinstance(live, tuple) else values
    return saved
