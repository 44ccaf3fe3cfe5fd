"""Changes that training makes to a trial's structure, told while something can be done about them.

A trial that continues is built anew by its `__init__`, so it has to make such changes again before
its state is put back. Whether it will cannot be known while it trains; but that they came after
`__init__`, and that no callback could make them again, can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from burst.harness.trial.structure import (
    HOOK,
    Difference,
    Structure,
    differences,
    groups_of,
    structure_of,
)


class Growth:
    """Tells of structures that `__init__` has not made."""

    def __init__(self, *, made_again: bool) -> None:
        """`made_again`: whether a callback has the hook for it, to which it is left then."""
        self._silent = made_again
        self._first: Structure | None = None
        self._known: Any = None

    def begin(self, first: Structure) -> None:
        """What `__init__` has made."""
        self._first = first
        self._known = [list(model) for model in first.models], list(first.optimizers)

    def news(self, models: Sequence[Mapping[str, Any]], optimizers: Sequence[Any]) -> str:
        """The text for a state that is saved, if its structure is news; else empty. Where it is
        the same, names are compared and no more.

        Args:
            models: their state dicts.
        """
        if self._silent or self._first is None:
            return ""
        outline = [list(model) for model in models], [groups_of(each) for each in optimizers]
        if outline == self._known:
            return ""
        self._known = outline
        now = replace(structure_of(models, optimizers), classes=self._first.classes)
        found = differences(self._first, now)
        return _text(found) if found else ""


def _text(found: Sequence[Difference]) -> str:
    lines = [line for each in found for line in each.text("`__init__`", "training")]
    return (
        f"{'; '.join(lines)}. A trial that continues is built by `__init__` again, and cannot "
        f"take on its checkpoints unless a callback makes the same anew in `{HOOK}`"
    )
