"""Skeletons back into trees."""

from __future__ import annotations

import base64
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import torch

from burst.core.model import Json
from burst.harness.checkpoints.codec import values
from burst.harness.checkpoints.codec.leaves import FACTORIES
from burst.harness.checkpoints.codec.state_types import registered_under

Tensors = Sequence[torch.Tensor]


def decode(skeleton: Json, tensors: Tensors) -> Any:
    """The tree of a skeleton. It takes `tensors` over: the tree holds them, not copies.

    Raises:
        BurstError: if it holds a registered type that is not registered here.
        NotMade: if one does not take back what was saved of it.
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


def _ordered(tensors: Tensors, items: Json, metadata: Json) -> Any:
    found = OrderedDict(_pairs(tensors, items))
    if metadata is not None:
        found._metadata = decode(metadata, tensors)  # type: ignore[attr-defined]
    return found


def _object(tensors: Tensors, name: str, node: Json) -> Any:
    return registered_under(name).make(decode(node, tensors))


def _tensor(tensors: Tensors, index: int, grad: bool) -> torch.Tensor:
    return tensors[index].requires_grad_(grad) if grad else tensors[index]


def _parameter(tensors: Tensors, index: int, grad: bool) -> torch.Tensor:
    return torch.nn.Parameter(tensors[index], requires_grad=grad)


def _pairs(tensors: Tensors, items: Json) -> list[tuple[Any, Any]]:
    return [(decode(key, tensors), decode(item, tensors)) for key, item in items]


def _list(tensors: Tensors, items: Sequence[Json]) -> list[Any]:
    return [decode(item, tensors) for item in items]


_DECODERS: dict[str, Callable[..., Any]] = {
    "int": lambda _, text: int(text, 16),
    "float": lambda _, text: struct.unpack(">d", bytes.fromhex(text))[0],
    "complex": lambda _, text: complex(*struct.unpack(">dd", bytes.fromhex(text))),
    "size": lambda _, *sizes: torch.Size(sizes),
    "dtype": lambda _, name: values.dtype_of(name),
    "device": lambda _, name: torch.device(name),
    "bytes": lambda _, text: base64.b64decode(text),
    "bytearray": lambda _, text: bytearray(base64.b64decode(text)),
    "long bytes": lambda tensors, index: tensors[index].numpy().tobytes(),
    "long bytearray": lambda tensors, index: bytearray(tensors[index].numpy().tobytes()),
    "tensor": _tensor,
    "parameter": _parameter,
    "array": lambda tensors, index, *facts: values.unpack_array(tensors[index], *facts),
    "scalar": lambda _, *facts: values.unpack_scalar(*facts),
    "tuple": lambda tensors, *items: tuple(_list(tensors, items)),
    "dict": lambda tensors, items: dict(_pairs(tensors, items)),
    "ordered": _ordered,
    "defaultdict": lambda tensors, name, items: defaultdict(
        FACTORIES.get(name), _pairs(tensors, items)
    ),
    "counter": lambda tensors, items: Counter(dict(_pairs(tensors, items))),
    "deque": lambda tensors, limit, *items: deque(_list(tensors, items), limit),
    "set": lambda tensors, *items: set(_list(tensors, items)),
    "frozenset": lambda tensors, *items: frozenset(_list(tensors, items)),
    "object": _object,
}
