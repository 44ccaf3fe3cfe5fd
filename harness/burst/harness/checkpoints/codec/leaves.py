"""What has no parts, in a skeleton: JSON where that is exact, and a mark where it is not."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import torch

from burst.core.model import Json

_EXACT_INT = 2**53  # beyond it, other readers of JSON lose digits

FACTORIES: dict[str, Any] = {
    f.__name__: f for f in (dict, list, set, tuple, int, float, str, bool)
}
"""What a defaultdict may make its values with."""


def mark(kind: str, *parts: Json) -> Json:
    """What stands in a skeleton for a value that JSON does not know."""
    return {"$": [kind, *parts]}


def _itself(value: Any) -> Json:
    return value


def _int(value: int) -> Json:
    return value if -_EXACT_INT <= value <= _EXACT_INT else mark("int", hex(value))


def _float(value: float) -> Json:
    return value if value - value == 0 else mark("float", struct.pack(">d", value).hex())


def _complex(value: complex) -> Json:
    return mark("complex", struct.pack(">dd", value.real, value.imag).hex())


LEAVES: dict[type, Callable[[Any], Json]] = {
    type(None): _itself,
    bool: _itself,
    str: _itself,
    int: _int,
    float: _float,
    complex: _complex,
    torch.Size: lambda value: mark("size", *value),
    torch.dtype: lambda value: mark("dtype", str(value).removeprefix("torch.")),
    torch.device: lambda value: mark("device", str(value)),
}
"""By their exact types, what they are in a skeleton."""
