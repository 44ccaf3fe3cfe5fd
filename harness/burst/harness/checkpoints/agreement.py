"""Doing something on every rank, and agreeing on whether it worked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burst.core.checkpoints.format.manifest import Damaged
from burst.core.checkpoints.tiers.places import Elsewhere
from burst.core.errors import BurstError, Fenced
from burst.harness.collective import Collective


class LenderGone(BurstError):
    """The checkpoint whose files were to be used again is deleted or damaged."""


class OutcomeUnknown(BurstError):
    """The store did not say whether a commit has happened."""


_SHARED_MEANING = {
    kind.__name__: kind for kind in (Fenced, Damaged, Elsewhere, LenderGone, OutcomeUnknown)
}


def on_all_ranks(collective: Collective, act: Callable[[], Any]) -> list[Any]:
    """What `act` returned (JSON-like) on every rank, by rank. Collective.

    If it raised on some, every rank raises the error of the first of them, so that all go the same
    way; on other ranks than its own, it is a BurstError that names the rank.
    """
    error: Exception | None = None
    value = None
    try:
        value = act()
    except Exception as raised:  # an error on one rank must not leave the others waiting for it
        error = raised
    answers = collective.allgather({"value": value, "error": _pack(error)})
    for rank, answer in enumerate(answers):
        if answer["error"] is not None:
            if rank == collective.rank and error is not None:
                raise error
            raise _unpack(rank, answer["error"]) from error
    return [answer["value"] for answer in answers]


def _pack(error: Exception | None) -> list[str] | None:
    if error is None:
        return None
    if isinstance(error, BurstError):
        return [type(error).__name__, error.what, error.why, error.mend]
    return ["", f"{type(error).__name__}: {error}", "", ""]


def _unpack(rank: int, packed: list[str]) -> BurstError:
    name, what, why, mend = packed
    kind = _SHARED_MEANING.get(name, BurstError)
    return kind(f"on rank {rank}: {what}", why=why, mend=mend)
