"""Types of objects that a trial has taught the checkpoints to hold, as trees of what they know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from burst.core.errors import BurstError, UsageError

T = TypeVar("T")

_CALL = "call `register_state_type(cls, to_tree, from_tree)`"

_HELD = frozenset(
    (
        *(f"builtins.{name}" for name in ("NoneType", "bool", "int", "float", "complex", "str")),
        *(f"builtins.{name}" for name in ("bytes", "bytearray", "dict", "list", "tuple", "set")),
        "builtins.frozenset",
        *(f"collections.{name}" for name in ("OrderedDict", "defaultdict", "Counter", "deque")),
        *(f"torch.{name}" for name in ("Tensor", "Size", "dtype", "device")),
        "torch.nn.parameter.Parameter",
        "numpy.ndarray",
    )
)
"""By name, so that nobody has to import what a script does not."""
_HELD_WITH_HEIRS = frozenset(("numpy.generic", "torch.distributed.tensor.DTensor"))


class NotMade(BurstError):
    """An object of a registered type could not be made again."""


@dataclass(frozen=True)
class StateType:
    """A registered type."""

    kind: type
    to_tree: Callable[[Any], Any]
    from_tree: Callable[[Any], Any]
    name: str

    def make(self, tree: Any) -> Any:
        """An object again, of what `to_tree` returned.

        Raises:
            NotMade: if `from_tree` raises, or makes something else.
        """
        try:
            made = self.from_tree(tree)
        except Exception as error:
            raise NotMade(
                f"the checkpoint's {self.name} cannot be made again",
                why=f"its `from_tree` raised {type(error).__name__}: {error}",
                mend="it has to take what `to_tree` returned when the checkpoint was written",
            ) from error
        if not isinstance(made, self.kind):
            raise NotMade(
                f"the checkpoint's {self.name} cannot be made again",
                why=f"its `from_tree` returned {_a(type(made).__name__)}",
                mend=f"return {_a(self.kind.__name__)} from it",
            )
        return made


_by_type: dict[type, StateType] = {}
_by_name: dict[str, StateType] = {}


def register_state_type(
    kind: type[T],
    to_tree: Callable[[T], Any],
    from_tree: Callable[[Any], T],
    *,
    name: str = "",
) -> None:
    """Let checkpoints hold objects of exactly the type `kind`.

    Call it where the type is defined, so that it is known wherever a checkpoint is read. `name`
    is what is written; without one it is the type's module and name, and moving the type then
    makes older checkpoints unreadable. Registering a type again replaces what was there; under
    another name, what was written under the former one can still be read.

    Raises:
        UsageError: for arguments of other kinds, a name that another type has, or a type that
            checkpoints hold as it is.
    """
    if not isinstance(kind, type):
        raise UsageError(
            f"`register_state_type` takes a class first, and got {_a(type(kind).__name__)}",
            why=f"it is {kind!r:.60}",
            mend=f"{_CALL} with the class itself",
        )
    if _is_held(kind):
        raise UsageError(
            f"checkpoints hold {_a(kind.__qualname__)} as it is",
            why="so what is registered for it would never be called",
            mend=f"{_CALL} with a class of your own, or leave it out",
        )
    for argument, act in (("to_tree", to_tree), ("from_tree", from_tree)):
        if not callable(act):
            raise UsageError(
                f"`{argument}` of {kind.__qualname__} cannot be called",
                why=f"it is {_a(type(act).__name__)}",
                mend=f"{_CALL} with two functions: to plain values, and back",
            )
    if not isinstance(name, str):
        raise UsageError(
            f"the name of {kind.__qualname__} in checkpoints is {_a(type(name).__name__)}",
            mend='give a string, such as name="app.Average", or leave it out',
        )
    entry = StateType(kind, to_tree, from_tree, name or _name_of(kind))
    before = _by_name.get(entry.name)
    # A module that is loaded again makes its classes anew; then it is the same type that is meant.
    if before is not None and _name_of(before.kind) != _name_of(kind):
        raise UsageError(
            f"{kind.__qualname__} cannot be called {entry.name!r} in checkpoints",
            why=f"{_name_of(before.kind)} is, and they would be taken for one another",
            mend="give it a name of its own with `name=`",
        )
    _by_type[kind] = entry
    _by_name[entry.name] = entry


def is_registered(name: str) -> bool:
    """Whether objects that were saved under `name` can be made here."""
    return name in _by_name


def registered_as(kind: type) -> StateType | None:
    """What was registered for objects of exactly this type."""
    return _by_type.get(kind)


def registered_under(name: str) -> StateType:
    """
    Raises:
        BurstError: if nothing here has that name.
    """
    if name not in _by_name:
        raise BurstError(
            f"the checkpoint holds a {name}, which is not registered here",
            mend="call `register_state_type` for it before the trial is restored",
        )
    return _by_name[name]


def _is_held(kind: type) -> bool:
    """Whether checkpoints hold its objects without asking what was registered for them."""
    heirs = (_name_of(base) in _HELD_WITH_HEIRS for base in kind.__mro__)
    return _name_of(kind) in _HELD or any(heirs)


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
