"""What can go wrong inside a trial, beyond the user's own exceptions."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from burst.core.errors import BurstError


class InvalidHP(BurstError):
    """Raise it to refuse these hyperparameters: the searcher replaces the trial, no restart."""


class TrialError(BurstError):
    """The trial's code does not fit the contract between it and burst."""


class MetricError(TrialError):
    """A reported metric is not a number, or has no name that can be kept."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """How to mend a name that is not there: the nearest one, or all there are."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"there is {', '.join(names)}" if names else "there is none"
