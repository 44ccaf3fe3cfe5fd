"""A torch loader with a few of its attributes replaced, for the iterators that torch makes of it.

The loader itself stays as the user made it: its attributes are read by Trainer and accelerate.
"""

from __future__ import annotations

from typing import Any


class View:
    """Stands for a loader where its iterator is made."""

    def __init__(self, loader: Any, **replaced: Any) -> None:
        self.__dict__.update(replaced)
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
