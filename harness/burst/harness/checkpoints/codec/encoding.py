"""Trees to skeletons: one pass, in which every tensor is looked at once."""

from __future__ import annotations

import base64
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import Parameter

from burst.core.errors import BurstError
from burst.core.model import Json
from burst.harness.checkpoints.codec import values
from burst.harness.checkpoints.codec.leaves import FACTORIES, LEAVES, mark
from burst.harness.checkpoints.codec.places import Place, Places
from burst.harness.checkpoints.codec.sharding import is_sharded, local_of
from burst.harness.checkpoints.codec.state_types import StateType, registered_as

_MAX_DEPTH = 150
_INLINE_BYTES = 1024
_ALL_STR = frozenset((str,))
_KEYS = (str, int, float, bool, bytes, tuple, type(None))
_TEACH = (
    "return plain values from its `state_dict`, or teach burst the type with "
    "`register_state_type(cls, to_tree, from_tree)` from burst.harness"
)


class NamedTensor(NamedTuple):
    """A tensor of a tree, live, and its place there as a name."""

    name: str
    section: str
    """The part of the tree it belongs to, such as `models.0`; files do not cross sections."""
    tensor: torch.Tensor
    address: int
    """Of this rank's memory of it; 0 if it has none."""


_new = tuple.__new__
"""Makes one in half of the time that its own constructor takes."""


Inner = Callable[["Encoder", Any, Place], Json]


class Encoder:
    """For one tree and one pass."""

    def __init__(self, root: str, places: Places) -> None:
        self.tensors: list[NamedTensor] = []
        self._root = root
        self._places = places
        self._at: dict[int, int] = {}
        """By address, the first tensor that lies there."""
        self._tied: dict[Any, int] = {}
        """By all that tells views of the same memory from one another, where there are several."""
        self._names: set[str] = set()
        self._counts: defaultdict[str, int] = defaultdict(lambda: 2)
        self._open: set[int] = set()

    def node(self, value: Any, place: Place) -> Json:
        kind = type(value)
        plain = LEAVES.get(kind)
        if plain is not None:
            return plain(value)
        if kind is torch.Tensor or kind is Parameter:
            return self.tensor(value, place)
        if kind in _CONTAINERS:
            return self._within(value, place, _CONTAINERS[kind])
        if kind is bytes or kind is bytearray:
            return self._bytes(value, place)
        if kind is np.ndarray:
            return self._array(value, place)
        if is_sharded(value):
            return self.tensor(value, place)
        if isinstance(value, np.generic):
            return mark("scalar", *self._checked(values.pack_scalar, value, place))
        return self._within(value, place, Encoder.object)

    def _within(self, value: Any, place: Place, act: Inner) -> Json:
        """What `act` makes of a value that has parts, unless they never end."""
        number, opened = id(value), self._open
        if number in opened:
            raise self._refusal(value, place, "it contains itself")
        if len(opened) > _MAX_DEPTH:
            raise self._refusal(value, place, f"it lies deeper than {_MAX_DEPTH} levels")
        opened.add(number)
        node = act(self, value, place)
        opened.discard(number)
        return node

    def object(self, value: Any, place: Place) -> Json:
        known = registered_as(type(value))
        if known is None:
            raise self._unknown(value, place)
        return mark("object", known.name, self.node(self._tree_of(value, known, place), place))

    def plain_dict(self, value: dict[Any, Any], place: Place) -> Json:
        if "$" in value or not _ALL_STR.issuperset(map(type, value)):
            return mark("dict", self.items(value, place))
        known, within, tensor, node = place.named, self._places.within, self.tensor, self.node
        leaves, usual = LEAVES, torch.Tensor
        out: dict[str, Json] = {}
        for key, item in value.items():
            kind = type(item)
            if kind is usual:
                out[key] = tensor(item, known.get(key) or within(place, key))
            elif kind in leaves:
                out[key] = leaves[kind](item)
            else:
                out[key] = node(item, known.get(key) or within(place, key))
        return out

    def items(self, value: Any, place: Place) -> list[Json]:
        known, within, tensor, node = place.named, self._places.within, self.tensor, self.node
        pairs: list[Json] = []
        for key, item in value.items():
            if type(key) is str:
                name, inner = key, known.get(key) or within(place, key)
            else:
                if type(key) not in _KEYS:
                    why = "it is a key of a dict, and not str or int"
                    raise self._refusal(key, place, why)
                name, inner = node(key, place), within(place, key)
            usual = type(item) is torch.Tensor
            pairs.append([name, tensor(item, inner) if usual else node(item, inner)])
        return pairs

    def elements(self, value: Any, place: Place) -> list[Json]:
        within, leaves = self._places.within, LEAVES
        return [
            leaves[type(item)](item)
            if type(item) in leaves
            else self.node(item, within(place, index))
            for index, item in enumerate(value)
        ]

    def ordered(self, value: OrderedDict[Any, Any], place: Place) -> Json:
        # `state_dict` keeps the versions of modules in an attribute of the dict that it returns.
        metadata = getattr(value, "_metadata", None)
        return mark("ordered", self.items(value, place), self._metadata(metadata, place))

    def _metadata(self, metadata: Any, place: Place) -> Json:
        if not _is_usual(metadata):
            return self.node(metadata, self._places.within(place, "_metadata"))
        if place.metadata is None or place.metadata[0] != metadata:
            inner = self._places.within(place, "_metadata")
            copied = OrderedDict((name, dict(facts)) for name, facts in metadata.items())
            place.metadata = copied, self.node(metadata, inner)
        return place.metadata[1]

    def factory(self, value: Any, place: Place) -> str:
        factory = value.default_factory
        name = getattr(factory, "__name__", "")
        if factory is not None and FACTORIES.get(name) is not factory:
            raise self._refusal(value, place, "its default_factory is not a plain type")
        return str(name)

    def _bytes(self, value: Any, place: Place) -> Json:
        if len(value) < _INLINE_BYTES:
            return mark(type(value).__name__, base64.b64encode(value).decode())
        tensor = torch.frombuffer(bytearray(value), dtype=torch.uint8)
        return mark(f"long {type(value).__name__}", self._add(tensor, place))

    def _array(self, value: np.ndarray[Any, Any], place: Place) -> Json:
        tensor, facts = self._checked(values.pack_array, value, place)
        return mark("array", self._add(tensor, place), *facts)

    def tensor(self, value: torch.Tensor, place: Place) -> Json:
        kind = type(value)
        whole = kind is torch.Tensor or kind is Parameter
        local = value if whole else local_of(value)
        try:
            address = local.data_ptr()
        except (RuntimeError, ValueError):
            address = 0
        if not address or local.dtype not in values.NAMES or local.is_nested:
            self._checked(values.check_tensor, local, place)
        grad = value.requires_grad
        index = self._at.get(address)
        if index is not None:
            index = self._found(local, index)
        if index is None:
            # Nothing needs it detached that has no history; to detach a DTensor takes 50 us.
            index = self._add(value.detach() if whole and grad else value, place, address)
        marked = ["parameter" if kind is Parameter else "tensor", index, grad and value.is_leaf]
        node = place.node
        if node is None or node["$"] != marked:
            node = place.node = {"$": marked}
        return node

    def _found(self, local: torch.Tensor, first: int) -> int | None:
        """The tensor that is the same view of the same memory as `local`; None if there is none.

        Args:
            first: the first tensor that begins where `local` does.
        """
        self._tied.setdefault(values.memory_of(local_of(self.tensors[first].tensor)), first)
        index = self._tied.setdefault(values.memory_of(local), len(self.tensors))
        return index if index < len(self.tensors) else None

    def _add(self, tensor: torch.Tensor, place: Place, address: int = 0) -> int:
        index, name = len(self.tensors), place.name
        if name in self._names:
            name = self._another(name)
        self._names.add(name)
        if address:
            self._at.setdefault(address, index)
        self.tensors.append(_new(NamedTensor, (name, place.section, tensor, address)))
        return index

    def _another(self, name: str) -> str:
        """Like `name`, which is taken: the keys of two places may look alike."""
        while f"{name}#{self._counts[name]}" in self._names:
            self._counts[name] += 1
        return f"{name}#{self._counts[name]}"

    def _tree_of(self, value: Any, known: StateType, place: Place) -> Any:
        try:
            tree = known.to_tree(value)
        except Exception as error:
            why = f"its `to_tree` raised {type(error).__name__}: {error}"
            mend = "mend the function that `register_state_type` was given"
            raise self._refusal(value, place, why, mend) from error
        if type(tree) is type(value):
            why = "its `to_tree` returned an object of the same type"
            mend = "return what the object knows, as plain values, tensors and arrays"
            raise self._refusal(value, place, why, mend)
        return tree

    def _checked(self, act: Callable[[Any], Any], value: Any, place: Place) -> Any:
        try:
            return act(value)
        except values.Unrepresentable as error:
            raise self._refusal(value, place, str(error), error.mend) from None

    def _unknown(self, value: Any, place: Place) -> BurstError:
        if isinstance(value, torch.Tensor):
            self._checked(values.check_tensor, value, place)
            why = "it is more than a torch.Tensor, and what more is not known"
            return self._refusal(value, place, why)
        why = "checkpoints hold plain values, tensors and arrays, and no pickled objects"
        return self._refusal(value, place, why)

    def _refusal(self, value: Any, place: Place, why: str, mend: str = _TEACH) -> BurstError:
        kind = type(value)
        return BurstError(
            f"a checkpoint cannot hold {place.text(self._root)}, "
            f"a {kind.__module__}.{kind.__qualname__}",
            why=why,
            mend=mend,
        )


def _is_usual(metadata: Any) -> bool:
    """Whether it is what modules give, nothing but version numbers by name. Two such are the same
    where they are equal, which is not so of all values: 1 is equal to True."""
    return (
        type(metadata) is OrderedDict
        and _ALL_STR.issuperset(map(type, metadata))
        and all(
            type(facts) is dict and len(facts) == 1 and type(facts.get("version")) is int
            for facts in metadata.values()
        )
    )


_CONTAINERS: dict[type, Inner] = {
    dict: Encoder.plain_dict,
    list: Encoder.elements,
    tuple: lambda e, value, place: mark("tuple", *e.elements(value, place)),
    OrderedDict: Encoder.ordered,
    defaultdict: lambda e, v, place: mark("defaultdict", e.factory(v, place), e.items(v, place)),
    Counter: lambda e, value, place: mark("counter", e.items(value, place)),
    deque: lambda e, value, place: mark("deque", value.maxlen, *e.elements(value, place)),
    set: lambda e, value, place: mark("set", *e.elements(value, place)),
    frozenset: lambda e, value, place: mark("frozenset", *e.elements(value, place)),
}
