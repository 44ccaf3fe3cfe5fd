"""Client tokens: the same token and the same parameters are the same request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_NOT_COMPARED = ("ClientToken", "DryRun", "Action", "Version")


class Mismatch(Exception):
    """The token was used with other parameters."""


@dataclass
class Tokens:
    """What was answered to which token; only what succeeded is kept, as in EC2."""

    _answers: dict[tuple[str, str], tuple[dict[str, str], Any]] = field(default_factory=dict)

    def find(self, operation: str, parameters: Mapping[str, str]) -> Any | None:
        """The answer that was given before, if one was.

        Raises:
            Mismatch: it was given to other parameters.
        """
        token = parameters.get("ClientToken", "")
        known = self._answers.get((operation, token)) if token else None
        if known is None:
            return None
        if known[0] != _compared(parameters):
            raise Mismatch(token)
        return known[1]

    def keep(self, operation: str, parameters: Mapping[str, str], answer: Any) -> None:
        token = parameters.get("ClientToken", "")
        if token:
            self._answers[operation, token] = (_compared(parameters), answer)


def _compared(parameters: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if name not in _NOT_COMPARED}
