"""State trees as JSON and tensors, without pickle: equal back, type for type and bit for bit.

`encode` turns a tree into a skeleton that JSON can hold and a list of tensors that it points into;
`decode` is its inverse. Plain JSON stands for itself; everything else is `{"$": [kind, ...]}`:

    {"lr": 0.1, "betas": {"$": ["tuple", 0.9, 0.999]}, "exp_avg": {"$": ["tensor", 3]}}

Tensors that share all of their memory (tied weights) are stored once and come back as one tensor.
A tensor comes back on the CPU, in the same memory format if it was dense. Of a DTensor, whose
elements lie on several ranks, the tree has what this rank has. A type that is not known
here is refused by its place in the tree; `register_state_type` teaches it.
"""

from __future__ import annotations

import base64
import copy
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from burst.core.errors import BurstError
from burst.core.model import Json
from burst.harness.checkpoints.codec import values
from burst.harness.checkpoints.codec.sharding import is_sharded, local_of

T = TypeVar("T")
Path = tuple[Any, ...]

_MAX_DEPTH = 150
_EXACT_INT = 2**53  # beyond it, other readers of JSON lose digits
_INLINE_BYTES = 1024
_FACTORIES: dict[str, Any] = {
    f.__name__: f for f in (dict, list, set, tuple, int, float, str, bool)
}
_ALL_STR = frozenset((str,))
_MOST_LABELS = 200_000
_kept_metadata: dict[Path, tuple[Any, Json]] = {}
_kept_labels: dict[Path, tuple[str, str]] = {}
_KEYS = (str, int, float, bool, bytes, tuple, type(None))


class NamedTensor(NamedTuple):
    """A tensor of a tree, live, and its place there as a name."""

    name: str
    section: str
    """The part of the tree it belongs to, such as `models.0`; files do not cross sections."""
    tensor: torch.Tensor
    address: int
    """Of this rank's memory of it; 0 if it has none."""


@dataclass
class Encoded:
    root: str
    skeleton: Json = None
    tensors: list[NamedTensor] = field(default_factory=list)


@dataclass(frozen=True)
class _StateType:
    to_tree: Callable[[Any], Any]
    from_tree: Callable[[Any], Any]
    name: str


_by_type: dict[type, _StateType] = {}
_by_name: dict[str, _StateType] = {}


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
    makes older checkpoints unreadable. Registering a type again replaces what was there.
    """
    entry = _StateType(to_tree, from_tree, name or f"{kind.__module__}.{kind.__qualname__}")
    _by_type[kind] = entry
    _by_name[entry.name] = entry


def is_registered(name: str) -> bool:
    """Whether objects that were saved under `name` can be made here."""
    return name in _by_name


def encode(tree: Any, root: str) -> Encoded:
    """The skeleton and the tensors of `tree`; `root` begins the names in errors.

    The tensors are the live ones, not copies.

    Raises:
        BurstError: for a value that cannot be represented, naming its place and type.
    """
    encoder = _Encoder(Encoded(root))
    with torch.no_grad():  # once here, and not for every shard
        encoder.out.skeleton = encoder.node(tree, ())
    return encoder.out


class _Encoder:
    def __init__(self, out: Encoded) -> None:
        self.out = out
        self._indices: dict[Any, int] = {}
        self._names: dict[str, int] = {}
        self._open: set[int] = set()

    def node(self, value: Any, path: Path) -> Json:
        kind = type(value)
        plain = _LEAVES.get(kind)
        if plain is not None:
            return plain(value)
        if kind in (bytes, bytearray):
            return self._bytes(value, path)
        if kind in (torch.Tensor, torch.nn.Parameter):
            return self.tensor(value, path)
        if kind is np.ndarray:
            return self._array(value, path)
        if is_sharded(value):
            return self.tensor(value, path)
        if isinstance(value, np.generic):
            return _mark("scalar", *self._checked(values.pack_scalar, value, path))
        return self._nested(value, path)

    def _nested(self, value: Any, path: Path) -> Json:
        if id(value) in self._open:
            raise self._refusal(value, path, "it contains itself")
        if len(path) > _MAX_DEPTH:
            raise self._refusal(value, path, f"it lies deeper than {_MAX_DEPTH} levels")
        self._open.add(id(value))
        try:
            container = _CONTAINERS.get(type(value))
            if container is not None:
                return container(self, value, path)
            known = _by_type.get(type(value))
            if known is None:
                raise self._refusal(value, path, "")
            return _mark("object", known.name, self.node(known.to_tree(value), path))
        finally:
            self._open.discard(id(value))

    def items(self, value: Any, path: Path) -> list[Json]:
        pairs = []
        for key, item in value.items():
            kind = type(key)
            if kind not in _KEYS:
                raise self._refusal(key, path, "it is a key of a dict, and not str or int")
            name = key if kind is str else self.node(key, path)
            usual = type(item) is torch.Tensor
            inner = (*path, key)
            pairs.append([name, self.tensor(item, inner) if usual else self.node(item, inner)])
        return pairs

    def elements(self, value: Any, path: Path) -> list[Json]:
        return [self.node(item, (*path, index)) for index, item in enumerate(value)]

    def factory(self, value: Any, path: Path) -> str:
        factory = value.default_factory
        name = getattr(factory, "__name__", "")
        if factory is not None and _FACTORIES.get(name) is not factory:
            raise self._refusal(value, path, "its default_factory is not a plain type")
        return name

    def _bytes(self, value: Any, path: Path) -> Json:
        if len(value) < _INLINE_BYTES:
            return _mark(type(value).__name__, base64.b64encode(value).decode())
        tensor = torch.frombuffer(bytearray(value), dtype=torch.uint8)
        return _mark(f"long {type(value).__name__}", self._add(tensor, path))

    def _array(self, value: np.ndarray[Any, Any], path: Path) -> Json:
        tensor, facts = self._checked(values.pack_array, value, path)
        return _mark("array", self._add(tensor, path), *facts)

    def tensor(self, value: torch.Tensor, path: Path) -> Json:
        kind = type(value)
        local = value if kind is torch.Tensor or kind is torch.nn.Parameter else local_of(value)
        tie = values.memory_of(local) if values.is_simple(local) else None
        if tie is None:  # it has no memory, or is none of the usual tensors
            self._checked(values.check_tensor, value, path)
            tie = values.memory_of(local)
        index = self._indices.get(tie) if tie else None
        if index is None:
            address = tie[0] if tie else 0
            # Nothing needs it detached that has no history; to detach a DTensor takes 50 us.
            history = local is value and value.requires_grad
            index = self._add(value.detach() if history else value, path, address)
            if tie:
                self._indices[tie] = index
        grad = value.requires_grad and value.is_leaf
        return {"$": ["parameter" if kind is torch.nn.Parameter else "tensor", index, grad]}

    def _add(self, tensor: torch.Tensor, path: Path, address: int = 0) -> int:
        name, section = _labels(path)
        count = self._names[name] = self._names.get(name, 0) + 1
        if count > 1:
            name = f"{name}#{count}"
        self.out.tensors.append(NamedTensor(name, section, tensor, address))
        return len(self.out.tensors) - 1

    def _checked(self, act: Callable[[Any], Any], value: Any, path: Path) -> Any:
        try:
            return act(value)
        except values.Unrepresentable as error:
            raise self._refusal(value, path, str(error)) from None

    def _refusal(self, value: Any, path: Path, why: str) -> BurstError:
        kind = type(value)
        return BurstError(
            f"a checkpoint cannot hold {_place(self.out.root, path)}, "
            f"a {kind.__module__}.{kind.__qualname__}",
            why=why or "checkpoints hold plain values, tensors and arrays, and no pickled objects",
            mend="return plain values from its `state_dict`, or teach burst the type with "
            "`register_state_type(cls, to_tree, from_tree)` from burst.harness",
        )


def decode(skeleton: Json, tensors: Sequence[torch.Tensor]) -> Any:
    """The tree of a skeleton. It takes `tensors` over: the tree holds them, not copies.

    Raises:
        BurstError: if it holds a registered type that is not registered here.
        ValueError: if it is not a skeleton.
    """
    if isinstance(skeleton, list):
        return [decode(item, tensors) for item in skeleton]
    if not isinstance(skeleton, dict):
        return skeleton
    if "$" not in skeleton:
        return {key: decode(item, tensors) for key, item in skeleton.items()}
    kind, *parts = skeleton["$"]
    if kind not in _DECODERS:
        raise ValueError(f"a checkpoint of this format holds no {kind!r}")
    return _DECODERS[kind](tensors, *parts)


def tensors_in(skeleton: Json) -> Iterator[int]:
    """The indices of the tensors that a skeleton, or a part of one, points to."""
    if isinstance(skeleton, list):
        for item in skeleton:
            yield from tensors_in(item)
    elif isinstance(skeleton, dict) and "$" not in skeleton:
        for item in skeleton.values():
            yield from tensors_in(item)
    elif isinstance(skeleton, dict):
        kind, *parts = skeleton["$"]
        if kind in _POINTERS:
            yield parts[0]
        else:
            yield from tensors_in(parts)


def _mark(kind: str, *parts: Json) -> Json:
    return {"$": [kind, *parts]}


def _place(root: str, path: Path) -> str:
    parts = [f".{p}" if isinstance(p, str) and p.isidentifier() else f"[{p!r}]" for p in path]
    return root + "".join(parts)


def _encode_int(value: int) -> Json:
    return value if abs(value) <= _EXACT_INT else _mark("int", hex(value))


def _encode_float(value: float) -> Json:
    bits = struct.pack(">d", value)
    finite = value - value == 0
    return value if finite else _mark("float", bits.hex())


def _encode_complex(value: complex) -> Json:
    return _mark("complex", struct.pack(">dd", value.real, value.imag).hex())


def _encode_dict(encoder: _Encoder, value: dict[Any, Any], path: Path) -> Json:
    if "$" in value or not _ALL_STR.issuperset(map(type, value)):
        return _mark("dict", encoder.items(value, path))
    node, tensor = encoder.node, encoder.tensor
    return {
        key: tensor(item, (*path, key)) if type(item) is torch.Tensor else node(item, (*path, key))
        for key, item in value.items()
    }


def _encode_ordered(encoder: _Encoder, value: OrderedDict[Any, Any], path: Path) -> Json:
    # `state_dict` keeps the versions of the modules in an attribute of the dict that it returns.
    return _mark("ordered", encoder.items(value, path), _metadata_of(encoder, value, path))


def _metadata_of(encoder: _Encoder, value: OrderedDict[Any, Any], path: Path) -> Json:
    """What `value` says of its modules; kept, because it is long and stays as it is."""
    metadata = getattr(value, "_metadata", None)
    before, encoded = _kept_metadata.get(path, (None, None))
    if before is None or before != metadata:
        tensors = len(encoder.out.tensors)
        encoded = encoder.node(metadata, (*path, "_metadata"))
        if metadata and tensors == len(encoder.out.tensors):
            _kept_metadata[path] = copy.deepcopy(metadata), encoded
    return encoded


def _decode_ordered(tensors: Sequence[torch.Tensor], items: Json, metadata: Json) -> Any:
    found = OrderedDict(_pairs(tensors, items))
    if metadata is not None:
        found._metadata = decode(metadata, tensors)  # type: ignore[attr-defined]
    return found


def _decode_object(tensors: Sequence[torch.Tensor], name: str, node: Json) -> Any:
    if name not in _by_name:
        raise BurstError(
            f"the checkpoint holds a {name}, which is not registered here",
            mend="call `register_state_type` for it before the trial is restored",
        )
    return _by_name[name].from_tree(decode(node, tensors))


def _decode_tensor(tensors: Sequence[torch.Tensor], index: int, grad: bool) -> torch.Tensor:
    return tensors[index].requires_grad_(grad) if grad else tensors[index]


def _decode_parameter(tensors: Sequence[torch.Tensor], index: int, grad: bool) -> torch.Tensor:
    return torch.nn.Parameter(tensors[index], requires_grad=grad)


def _pairs(tensors: Sequence[torch.Tensor], items: Json) -> list[tuple[Any, Any]]:
    return [(decode(key, tensors), decode(item, tensors)) for key, item in items]


def _labels(path: Path) -> tuple[str, str]:
    """The name of a tensor at this place, and its section. Kept, because every save asks anew."""
    found = _kept_labels.get(path)
    if found is None:
        name = ".".join(map(str, path)) or "value"
        section = ".".join(map(str, path[: 1 + _lists(path)])) if path[1:] else ""
        if len(_kept_labels) >= _MOST_LABELS:
            _kept_labels.clear()
        found = _kept_labels[path] = name, section
    return found


def _lists(path: Path) -> bool:
    """Whether the top of the path is an element of a list, as in `models.0`."""
    return type(path[1]) is int


def _raw(text: str) -> bytes:
    return base64.b64decode(text)


def _list(tensors: Sequence[torch.Tensor], items: Sequence[Json]) -> list[Any]:
    return [decode(item, tensors) for item in items]


_LEAVES: dict[type, Callable[[Any], Json]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    str: lambda value: value,
    int: _encode_int,
    float: _encode_float,
    complex: _encode_complex,
    torch.Size: lambda value: _mark("size", *value),
    torch.dtype: lambda value: _mark("dtype", str(value).removeprefix("torch.")),
    torch.device: lambda value: _mark("device", str(value)),
}

_POINTERS = ("tensor", "parameter", "array", "long bytes", "long bytearray")
"""The marks whose first part is the index of a tensor."""

_CONTAINERS: dict[type, Callable[[_Encoder, Any, Path], Json]] = {
    dict: _encode_dict,
    list: lambda e, value, path: e.elements(value, path),
    tuple: lambda e, value, path: _mark("tuple", *e.elements(value, path)),
    OrderedDict: _encode_ordered,
    defaultdict: lambda e, v, path: _mark("defaultdict", e.factory(v, path), e.items(v, path)),
    Counter: lambda e, value, path: _mark("counter", e.items(value, path)),
    deque: lambda e, value, path: _mark("deque", value.maxlen, *e.elements(value, path)),
    set: lambda e, value, path: _mark("set", *e.elements(value, path)),
    frozenset: lambda e, value, path: _mark("frozenset", *e.elements(value, path)),
}

_DECODERS: dict[str, Callable[..., Any]] = {
    "int": lambda _, text: int(text, 16),
    "float": lambda _, text: struct.unpack(">d", bytes.fromhex(text))[0],
    "complex": lambda _, text: complex(*struct.unpack(">dd", bytes.fromhex(text))),
    "size": lambda _, *sizes: torch.Size(sizes),
    "dtype": lambda _, name: values.dtype_of(name),
    "device": lambda _, name: torch.device(name),
    "bytes": lambda _, text: _raw(text),
    "bytearray": lambda _, text: bytearray(_raw(text)),
    "long bytes": lambda tensors, index: tensors[index].numpy().tobytes(),
    "long bytearray": lambda tensors, index: bytearray(tensors[index].numpy().tobytes()),
    "tensor": _decode_tensor,
    "parameter": _decode_parameter,
    "array": lambda tensors, index, *facts: values.unpack_array(tensors[index], *facts),
    "scalar": lambda _, *facts: values.unpack_scalar(*facts),
    "tuple": lambda tensors, *items: tuple(_list(tensors, items)),
    "dict": lambda tensors, items: dict(_pairs(tensors, items)),
    "ordered": _decode_ordered,
    "defaultdict": lambda tensors, name, items: defaultdict(
        _FACTORIES.get(name), _pairs(tensors, items)
    ),
    "counter": lambda tensors, items: Counter(dict(_pairs(tensors, items))),
    "deque": lambda tensors, limit, *items: deque(_list(tensors, items), limit),
    "set": lambda tensors, *items: set(_list(tensors, items)),
    "frozenset": lambda tensors, *items: frozenset(_list(tensors, items)),
    "object": _decode_object,
}
