"""IAM's evaluation of policy documents, as far as burst's own need it.

An action is allowed if some statement allows it and none denies it. A statement is about a request
if its action, its resource and every one of its conditions match. Patterns know `*` and `?`.

Source: IAM User Guide, "Policy evaluation logic" and "Condition operators".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Request:
    """One action on one resource, and what is known of it."""

    action: str
    resource: str = "*"
    """Its ARN; `*` where AWS checks the action against none."""
    context: Mapping[str, str] = field(default_factory=dict)
    """Condition keys."""


def is_allowed(policies: Iterable[Document], request: Request) -> bool:
    """Whether a principal that has these policies may do it."""
    effects = {each["Effect"] for each in matching(policies, request)}
    return effects == {"Allow"}


def matching(policies: Iterable[Document], request: Request) -> list[Mapping[str, Any]]:
    """The statements that are about the request."""
    statements = [each for policy in policies for each in policy["Statement"]]
    return [each for each in statements if _is_about(each, request)]


def statements_of(policy: Document, effect: str = "Allow") -> list[Mapping[str, Any]]:
    return [each for each in policy["Statement"] if each["Effect"] == effect]


def actions_of(policy: Document) -> set[str]:
    """All that a policy's statements allow, as they are written."""
    return {action for each in statements_of(policy) for action in many(each["Action"])}


def many(value: str | Sequence[str]) -> list[str]:
    """A policy has one value, or a list."""
    return [value] if isinstance(value, str) else list(value)


def _is_about(statement: Mapping[str, Any], request: Request) -> bool:
    known = {"Sid", "Effect", "Principal", "Action", "Resource", "Condition"}
    assert statement.keys() <= known, f"{statement.keys() - known} is not evaluated here"
    return (
        any(_like(each, request.action, fold=True) for each in many(statement["Action"]))
        and any(_like(each, request.resource) for each in many(statement.get("Resource", "*")))
        and all(
            _holds(operator, wanted, request.context)
            for operator, wanted in statement.get("Condition", {}).items()
        )
    )


def _holds(operator: str, wanted: Mapping[str, Any], context: Mapping[str, str]) -> bool:
    """All keys of one operator; a key that the request does not have holds for no operator."""
    names = {key.lower(): value for key, value in context.items()}
    compare = _OPERATORS[operator]
    for key, values in wanted.items():
        found = names.get(key.lower())
        if found is None or not any(compare(each, found) for each in many(values)):
            return False
    return True


def _like(pattern: str, text: str, *, fold: bool = False) -> bool:
    parts = {"*": ".*", "?": "."}
    regex = "".join(parts.get(letter, re.escape(letter)) for letter in pattern)
    flags = re.DOTALL | (re.IGNORECASE if fold else 0)
    return re.fullmatch(regex, text, flags) is not None


def _like_arn(pattern: str, text: str) -> bool:
    """Part by part: a `*` in one of an ARN's six parts stops at its colon."""
    wanted, found = pattern.split(":", 5), text.split(":", 5)
    same = len(wanted) == len(found)
    return same and all(_like(*each) for each in zip(wanted, found, strict=True))


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda wanted, found: bool(wanted == found),
    "StringLike": _like,
    "ArnLike": _like_arn,
    "ArnEquals": _like_arn,
    "Bool": lambda wanted, found: bool(wanted.lower() == found.lower()),
    "NumericLessThan": lambda wanted, found: float(found) < float(wanted),
}
