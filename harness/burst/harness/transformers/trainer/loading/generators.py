"""The random states that data is read with: cheap to take before every batch, exact to set."""

from __future__ import annotations

import _random
import ctypes
import os
import random
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from burst.harness.checkpoints.codec import rng
from burst.harness.checkpoints.port import Tree

_KINDS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
_known: dict[type, bool] = {}
_DEPTH = 4
_MT19937_BYTES = 625 * 4
_HEAD_BYTES = object.__basicsize__
# Their objects are many, and hold no generator that a dataset of the user's draws from.
_CLOSED = {"builtins", "collections", "datasets", "numpy", "pandas", "pyarrow", "tokenizers"}


@dataclass(frozen=True)
class Snapshot:
    """The global CPU generators and the private ones of a loader's parts, at one moment."""

    world: dict[str, Any]
    """As `rng.capture` forms it, without devices: a fetch that is not consumed is made with the
    states of the CPU alone. Python's may still be what is in its memory."""
    private: dict[str, Tree] = field(default_factory=dict)

    def tree(self) -> Tree:
        """What `of` takes back."""
        return {"world": self.plain(), "private": self.private}

    def plain(self) -> dict[str, Any]:
        """`world`, as `rng.restore` takes it."""
        return {**self.world, "python": _plain(self.world["python"])}

    @staticmethod
    def of(tree: Tree) -> Snapshot:
        """The snapshot that `tree` formed."""
        return Snapshot(tree["world"], dict(tree["private"]))


class Generators:
    """Takes and sets the random states that one loader's data is read with."""

    def __init__(self, parts: Sequence[Any]) -> None:
        """Those that `parts` (dataset, sampler, collator, …) hold as attributes are theirs alone,
        and follow their data."""
        self._parts = parts
        self._numpy = _Numpy()
        self._python = _peek_python if _can_peek_python() else random.getstate
        self._searches = 2
        """Left: a part may make its generator at the first batch."""
        self._search()

    def take(self) -> Snapshot:
        """The states now. Costs a few µs, and some 60 µs more where NumPy's has moved."""
        world = {
            "python": self._python(),
            "numpy": self._numpy.take(),
            "torch": torch.default_generator.get_state(),
        }
        if self._searches:
            self._search()
            self._searches -= 1
        return Snapshot(world, self.private())

    def private(self) -> dict[str, Tree]:
        """The states of the generators that the parts hold, by where they are."""
        return {
            f"{path}.{name}": _state(value)
            for path, holder in self._holders
            for name, value in vars(holder).items()
            if _generates(type(value))
        }

    def put(self, snapshot: Snapshot) -> None:
        """Set the global CPU generators and the private ones to what `take` saw."""
        rng.restore(snapshot.plain())
        self.put_private(snapshot.private)

    def put_private(self, states: Mapping[str, Tree]) -> None:
        """Set the private generators. One that its holder makes later is made now."""
        if not states:
            return
        for path, state in states.items():
            at, _, name = path.rpartition(".")
            holder = self._found.get(at)
            if holder is None:
                continue
            if not _generates(type(getattr(holder, name, None))):
                setattr(holder, name, _fresh(state))
            if hasattr(holder, "_generator_pid"):
                # transformers' collators make theirs anew in a process that did not make it.
                holder._generator_pid = os.getpid()
            _set(getattr(holder, name), state)
        self._search()

    def _search(self) -> None:
        self._found = _objects(self._parts)
        self._holders = [
            (path, found) for path, found in self._found.items() if _may_generate(vars(found))
        ]


def packed(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot in parts that pass between processes as bytes, each to compare and replace."""
    parts = {
        "python": snapshot.world["python"],
        "numpy": snapshot.world["numpy"],
        "torch": snapshot.world["torch"].numpy().tobytes(),
    }
    for path, state in snapshot.private.items():
        value = state["state"]
        is_tensor = isinstance(value, torch.Tensor)
        parts[f"private {path}"] = {
            **state,
            "state": value.numpy().tobytes() if is_tensor else value,
        }
    return parts


def unpacked(parts: Mapping[str, Any]) -> Snapshot:
    """The snapshot that `packed` took apart."""
    world = {
        "python": parts["python"],
        "numpy": parts["numpy"],
        "torch": _tensor(parts["torch"]),
    }
    private = {
        path.partition(" ")[2]: {
            **state,
            "state": _tensor(state["state"]) if state["kind"] == "torch" else state["state"],
        }
        for path, state in parts.items()
        if path.startswith("private ")
    }
    return Snapshot(world, private)


def _tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


class Untouched:
    """Keeps every generator, those of devices too, from what happens within its block."""

    def __init__(self, generators: Generators) -> None:
        self._generators = generators

    def __enter__(self) -> None:
        self._world = rng.capture()
        self._private = self._generators.private()

    def __exit__(self, *_: object) -> None:
        rng.restore(self._world)
        self._generators.put_private(self._private)


def _peek_python() -> tuple[bytes, float | None]:
    """What Python's generator keeps in memory: where it is in its words, the words, and a normal
    number for the next call. `getstate` makes 625 numbers of that, which takes longer than many
    a batch."""
    generator: Any = random._inst
    return ctypes.string_at(id(generator) + _HEAD_BYTES, _MT19937_BYTES), generator.gauss_next


def _plain(state: Any) -> Any:
    """The state as `random.setstate` takes it."""
    if len(state) != 2:
        return state
    memory, gauss = state
    position, *words = array("I", memory)
    return random.Random.VERSION, (*words, position), gauss


@cache
def _can_peek_python() -> bool:
    """Whether this Python keeps its generator as is supposed here."""
    if _random.Random.__basicsize__ < _HEAD_BYTES + _MT19937_BYTES:
        return False
    return bool(_plain(_peek_python()) == random.getstate())


class _Numpy:
    """NumPy's global state, whose own `get_state` is too slow to call at every batch."""

    def __init__(self) -> None:
        self._seen = b""
        self._full: dict[str, Any] = {}

    def take(self) -> dict[str, Any]:
        seen = _peek()
        # A normal number that is kept for the next call does not show in what was seen.
        if seen is None or seen != self._seen or self._full["has_gauss"]:
            self._full = dict(np.random.get_state(legacy=False))
            self._seen = seen or b""
        return self._full


def _peek() -> bytes | None:
    """What MT19937 keeps in memory, 2500 bytes; None for another bit generator."""
    generator = np.random.get_bit_generator()  # type: ignore[attr-defined]
    if type(generator) is not np.random.MT19937:
        return None
    return ctypes.string_at(generator.ctypes.state_address, _MT19937_BYTES)


def _objects(parts: Sequence[Any]) -> dict[str, Any]:
    """The objects among `parts`, and in them, that may hold a generator, by where they are."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    waiting = [(str(number), part, _DEPTH) for number, part in enumerate(parts)]
    while waiting:
        path, part, depth = waiting.pop(0)
        if id(part) in seen or not _is_open(part):
            continue
        seen.add(id(part))
        if not isinstance(part, MethodType):
            found[path] = part
        if depth:
            waiting += [(f"{path}.{name}", value, depth - 1) for name, value in _within(part)]
    return found


def _within(part: Any) -> Iterator[tuple[str, Any]]:
    for name in ("__self__", "func"):  # of a bound method, of functools.partial
        yield name, getattr(part, name, None)
    for name, value in getattr(part, "__dict__", {}).items():
        if isinstance(value, list | tuple):
            yield from ((f"{name}.{number}", item) for number, item in enumerate(value[:16]))
        else:
            yield name, value


def _generates(kind: type) -> bool:
    """Whether it is a generator's class; asking torch's own takes a microsecond each time."""
    known = _known.get(kind)
    if known is None:
        known = _known[kind] = issubclass(kind, _KINDS)
    return known


def _may_generate(attributes: Mapping[str, Any]) -> bool:
    return any(
        _generates(type(value)) or (value is None and ("generator" in name or "rng" in name))
        for name, value in attributes.items()
    )


def _is_open(part: Any) -> bool:
    if isinstance(part, type | ModuleType | FunctionType | torch.nn.Module | torch.Tensor):
        return False
    root = type(part).__module__.partition(".")[0]
    if isinstance(part, MethodType):
        return True
    return hasattr(part, "__dict__") and root not in _CLOSED


def _state(generator: Any) -> Tree:
    if isinstance(generator, torch.Generator):
        return {"kind": "torch", "state": generator.get_state()}
    if isinstance(generator, np.random.Generator):
        return {"kind": "numpy", "state": generator.bit_generator.state}
    if isinstance(generator, np.random.RandomState):
        return {"kind": "legacy", "state": generator.get_state(legacy=False)}
    return {"kind": "python", "state": generator.getstate()}


def _fresh(state: Tree) -> Any:
    match state["kind"]:
        case "torch":
            return torch.Generator()
        case "numpy":
            name = state["state"]["bit_generator"]
            return np.random.Generator(getattr(np.random, name)())
        case "legacy":
            return np.random.RandomState()
        case _:
            return random.Random()


def _set(generator: Any, state: Tree) -> None:
    match state["kind"]:
        case "torch":
            generator.set_state(state["state"])
        case "numpy":
            generator.bit_generator.state = state["state"]
        case "legacy":
            generator.set_state(state["state"])
        case _:
            generator.setstate(state["state"])
