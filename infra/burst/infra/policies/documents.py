"""IAM's policy documents, from statements that say what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Conditions = Mapping[str, Mapping[str, str | Sequence[str]]]
"""By operator, by key, the values of which one has to hold; all keys and operators have to."""
ANY = ("*",)
"""The resources of an action that AWS checks against none."""


@dataclass(frozen=True)
class Statement:
    """Who may (or may not) do what with what, and when."""

    sid: str
    actions: Sequence[str]
    resources: Sequence[str] = ()
    """ARNs; none in a trust policy, which is about the role that it belongs to."""
    conditions: Conditions = field(default_factory=dict)
    principal: Mapping[str, str] | str = ""
    """Who, where it is not whoever has the policy."""
    effect: str = "Allow"

    def as_json(self) -> dict[str, Any]:
        """As IAM takes it."""
        found: dict[str, Any] = {
            "Sid": self.sid,
            "Effect": self.effect,
            "Principal": self.principal,
            "Action": _plain(self.actions),
            "Resource": _plain(self.resources),
            "Condition": {
                operator: {key: _plain(value) for key, value in keys.items()}
                for operator, keys in self.conditions.items()
            },
        }
        return {name: value for name, value in found.items() if value}


def document(statements: Sequence[Statement]) -> dict[str, Any]:
    """A policy document. The same statements give the same text (`as_text`)."""
    return {"Version": "2012-10-17", "Statement": [each.as_json() for each in statements]}


def as_text(policy: Mapping[str, Any]) -> str:
    return json.dumps(policy, separators=(",", ":"))


def _plain(values: str | Sequence[str]) -> str | list[str]:
    if isinstance(values, str):
        return values
    return values[0] if len(values) == 1 else list(values)
