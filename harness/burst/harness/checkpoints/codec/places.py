"""Places in trees: what they are called, and what is kept of them from one save to the next.

Every save asks anew for thousands of names, and they hardly ever change. So places are kept; but
whatever is kept of a place follows from its path alone, or is compared before it is used again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from burst.core.model import Json

_SHOWN = 5
"""Steps of a long path that are shown at either end."""
_KEY_CHARACTERS = 60


class Place:
    """A place in a tree."""

    __slots__ = (
        "_joined",
        "_key",
        "_parent",
        "metadata",
        "name",
        "named",
        "node",
        "numbered",
        "section",
    )

    def __init__(self, parent: Place | None = None, key: Any = None) -> None:
        self._parent = parent
        self._key = key
        self.named: dict[str, Place] = {}
        """Places in it that are kept, by the keys that lead to them."""
        self.numbered: dict[int, Place] = {}
        """The same for whole numbers, keys or positions."""
        self.node: Any = None
        """What the tensor here was in the skeleton of the save before."""
        self.metadata: tuple[Mapping[str, Any], Json] | None = None
        """What a module's versions here were, and in that skeleton."""
        self.name = "value"
        """Of a tensor here."""
        self.section = ""
        """The part of the tree that a tensor here belongs to, such as `models.0`."""
        self._joined = ""
        if parent is None:
            return
        outer = parent._parent
        self._joined = str(key) if outer is None else f"{parent._joined}.{key}"
        self.name = self._joined or "value"
        if outer is not None and outer._parent is None:
            self.section = self._joined if type(key) is int else parent._joined
        elif outer is not None:
            self.section = parent.section

    def text(self, root: str) -> str:
        """For people, as they would write it; the middle of a long path is left out."""
        parts = [*self._steps()][::-1]
        if len(parts) > 2 * _SHOWN + 1:
            left = len(parts) - 2 * _SHOWN
            parts[_SHOWN:-_SHOWN] = [f" … {left} levels … "]
        return root + "".join(parts)

    def _steps(self) -> Iterator[str]:
        place = self
        while place._parent is not None:
            key = place._key
            text = f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
            cut = len(text) > _KEY_CHARACTERS
            yield f"{text[: _KEY_CHARACTERS - 20]}…{text[-15:]}" if cut else text
            place = place._parent


class Places:
    """The places of one tree, kept over its saves. One encoding at a time may use them."""

    def __init__(self) -> None:
        self.root = Place()
        self._kept = 0
        self._first = 0

    def within(self, place: Place, key: Any) -> Place:
        """Where `key` leads from a place."""
        kind = type(key)
        known: dict[Any, Place] | None = None
        if kind is str:
            known = place.named
        elif kind is int:
            known = place.numbered
        if (
            known is None
        ):  # other keys are equal and have different names: True and 1, 0.0 and -0.0
            return Place(place, key)
        found = known.get(key)
        if found is None:
            found = known[key] = Place(place, key)
            self._kept += 1
        return found

    def settle(self) -> bool:
        """At the end of an encoding: whether these places are worth keeping. Where a tree has new
        places with every save, most of them are not its any more."""
        self._first = self._first or self._kept
        return self._kept <= 2 * self._first + 1000
