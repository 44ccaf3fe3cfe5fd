"""Failures of saves, told apart by their cause and told in a few words."""

from __future__ import annotations

import re

_VARYING = re.compile(r"\S*\d\S*")
"""Words with a number in them: batches, ids, digests, paths of files named by them."""
_PREFIX = " was not saved: "


def cause(problem: str) -> str:
    """What two failures for the same cause have in common, whatever batch and file they met."""
    return _VARYING.sub("#", problem)


def brief(problem: str) -> str:
    """A failure on one line, as `what: why`, without what it was about and how to mend it."""
    first, *more = problem.strip().splitlines() or [""]
    what = first.rpartition(_PREFIX)[2].strip()
    whys = [line.partition("Why:")[2].strip() for line in more if line.strip().startswith("Why:")]
    return ": ".join(filter(None, (what, *whys)))
