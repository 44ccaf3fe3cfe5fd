"""What is to go wrong in a rehearsal, and when: a pure plan from what the user wrote and a seed.

Losses come at points of the training's progress, not of the clock: so the same scenario means the
same on a slow machine as on a fast one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from burst.core.errors import UsageError
from burst.core.model import Trial
from burst.core.units import parse_duration

NONE = "none"
_EARLIEST, _LATEST = 0.1, 0.85
"""Of the whole training, between which machines are taken away."""
_CAPACITY = re.compile(r"(?:(?P<zone>[a-z0-9-]+):)?(?P<count>\d+|none)(?:@(?:t\+)?(?P<since>.+))?")
EVERY_ZONE = "*"


@dataclass(frozen=True)
class Loss:
    """A machine that is taken away."""

    progress: float
    """The part of all trials' training, between 0 and 1, after which it happens."""
    notice: float | None
    """Seconds of warning; None is none at all."""
    choice: float
    """Between 0 and 1: which of the machines that train then."""


@dataclass(frozen=True)
class Capacity:
    """How many machines the cloud has from a moment on."""

    machines: int | None
    """None is any number."""
    since: float
    """Seconds from the start."""
    zone: str = EVERY_ZONE
    """The zone that has them; else all zones together."""


@dataclass(frozen=True)
class Scenario:
    losses: tuple[Loss, ...] = ()
    capacity: tuple[Capacity, ...] = ()


def scenario_of(lose: int, notices: Sequence[str], capacity: Sequence[str], seed: int) -> Scenario:
    """The scenario that the options describe, the same for the same seed.

    Args:
        notices: of the losses in turn, `120s` or `none`; begun anew when there are more losses.

    Raises:
        UsageError: one of them cannot be read.
    """
    draw = random.Random(seed)
    warned = [notice_of(text) for text in notices] or [120.0]
    points = sorted(draw.uniform(_EARLIEST, _LATEST) for _ in range(lose))
    losses = [
        Loss(point, warned[index % len(warned)], draw.random())
        for index, point in enumerate(points)
    ]
    return Scenario(tuple(losses), tuple(capacity_of(text) for text in capacity))


def notice_of(text: str) -> float | None:
    """Seconds of a notice; None for `none`.

    Raises:
        UsageError: it is neither.
    """
    if text == NONE:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise _unread("--notice", text, "a time such as 120s, or none") from error


def capacity_of(text: str) -> Capacity:
    """`3`, `3@t+60s`, `none@t+2m`, or one of these for a zone: `us-east-1a:0`.

    Raises:
        UsageError: it is none of those.
    """
    found = _CAPACITY.fullmatch(text)
    meant = (
        "a number of machines, or none, and since when: 3@t+60s; with a zone before it, of that "
        "zone alone: us-east-1a:0"
    )
    if found is None:
        raise _unread("--capacity", text, meant)
    count, since = found["count"], found["since"]
    try:
        seconds = parse_duration(since) if since else 0.0
    except ValueError as error:
        raise _unread("--capacity", text, meant) from error
    machines = None if count == NONE else int(count)
    return Capacity(machines, seconds, found["zone"] or EVERY_ZONE)


def progress_of(trials: Sequence[Trial]) -> float:
    """The part of the training that is done, of all trials that there are; 0 while none of them
    knows its length."""
    known = [trial for trial in trials if trial.target_batches]
    mean = sum(trial.target_batches or 0 for trial in known) / max(1, len(known))
    whole = mean * len(trials)
    return sum(trial.done.batches for trial in known) / whole if whole else 0.0


def _unread(option: str, text: str, meant: str) -> UsageError:
    return UsageError(f"{option} {text!r} cannot be read", mend=f"write {meant}")
