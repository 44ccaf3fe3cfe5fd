"""Changing a state together with the event that tells of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeVar

from burst.core.states import Reason, Stateful, advance
from burst.core.store import event_of
from burst.core.store.port import Append

R = TypeVar("R", bound=Stateful)


def move(
    record: R, to: StrEnum, reason: Reason, now: float, *, experiment: str, **fields: Any
) -> tuple[R, Append]:
    """`record` in state `to` with `fields` set, and the event for the same commit.

    Raises:
        IllegalTransition: the table of states has no such edge.
    """
    changed, transition = advance(record, to, reason, now)
    return changed.model_copy(update=fields), Append(event_of(transition, experiment))
