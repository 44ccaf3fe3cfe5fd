"""Data in exact order: what a trial trains on, enterable at any batch; and text on its way there.

    from burst.harness.data import DataLoader, Padding, load, pack, tokenized

Hugging Face's `datasets` is imported when something that needs it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from burst.harness.data.collate import Padding
from burst.harness.data.errors import DataError
from burst.harness.data.loader import DataLoader
from burst.harness.data.port import BatchSource

if TYPE_CHECKING:
    from burst.harness.data.text.checking import checked
    from burst.harness.data.text.packing import pack
    from burst.harness.data.text.sources import load
    from burst.harness.data.text.tokens import tokenized

_HOMES = {
    "checked": "checking",
    "load": "sources",
    "pack": "packing",
    "tokenized": "tokens",
}

__all__ = [
    "BatchSource",
    "DataError",
    "DataLoader",
    "Padding",
    "checked",
    "load",
    "pack",
    "tokenized",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.text.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
