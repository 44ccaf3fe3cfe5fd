"""What a Trainer of a derived class keeps beside what the Trainer does, as those of trl do: the
metrics that it adds up, a counter of its own, batches that it has generated ahead. Numbers, text
and tensors in its attributes, plain or in containers, as far as training has changed them."""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from typing import Any

import torch

_MOST = 100_000
"""Values of one attribute; what has more is no state of a training, but its data."""


class Extras:
    """Those of one Trainer, from the beginning of its training on."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._initial = {name: _plain(value) for name, value in self._attributes()}

    def state(self) -> dict[str, Any]:
        """By name, what is not as it was when the training began. Tensors are the live ones."""
        return {
            name: _plain(value)
            for name, value in self._attributes()
            if name not in self._initial or not _same(_plain(value), self._initial[name])
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Set them, within the containers that are there where there are some."""
        device = self._trainer.args.device
        for name, value in state.items():
            live = getattr(self._trainer, name, None)
            setattr(self._trainer, name, _put(live, value, device))

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        known = _of_trainer(_base(type(self._trainer)))
        for name, value in vars(self._trainer).items():
            if name not in known and _is_plain(value, [_MOST]):
                yield name, value


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
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_same(*pair) for pair in pairs)
    return bool(one == other)


def _put(live: Any, saved: Any, device: torch.device) -> Any:
    if isinstance(saved, torch.Tensor):
        return saved.to(device)
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
