"""Typed ids that are short and sort by the time they were made.

`exp-1m3k9zq4w7c`: a kind, eight base-32 digits of milliseconds since 2024, which last until
2058, three random digits. A trial's id is its experiment's with a number:
`exp-1m3k9zq4w7c.t0003`. Two ids made in the same millisecond collide once in 32,768; every record
is created on the condition that it is not there yet, so a collision is a conflict, never an
overwrite.
"""

from __future__ import annotations

import re

from burst.core.chance import chance
from burst.core.clock import Clock
from burst.core.errors import UsageError

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's, in ASCII order, so that ids sort
_EPOCH_S = 1_704_067_200.0  # 2024-01-01T00:00:00Z
_KINDS = ("exp", "alloc", "node", "ckpt", "launch")
_ID = re.compile(rf"(?:{'|'.join(_KINDS)})-[{_DIGITS}]{{11}}")
_TRIAL_ID = re.compile(rf"exp-[{_DIGITS}]{{11}}\.t[0-9]{{4,6}}")


def new_id(kind: str, clock: Clock) -> str:
    """A fresh id of `kind` (exp, alloc, node, ckpt or launch)."""
    if kind not in _KINDS:
        raise ValueError(f"no such kind of id: {kind!r}")
    millis = max(0, int((clock.now() - _EPOCH_S) * 1000))
    return f"{kind}-{_base32(millis, 8)}{_base32(chance.randrange(32**3), 3)}"


def made_at(id: str) -> float:
    """When an id was made, in seconds since 1970, by the clock that made it.

    Raises:
        UsageError: it is no id.
    """
    millis = 0
    for digit in check_id(id).partition("-")[2][:8]:
        millis = millis * 32 + _DIGITS.index(digit)
    return _EPOCH_S + millis / 1000


def trial_id(experiment: str, number: int) -> str:
    """The id of an experiment's `number`-th trial, counted from 0."""
    return f"{experiment}.t{number:04d}"


def check_id(value: str) -> str:
    """`value`, if it is a whole id; ids become paths and keys, so nothing else may pass.

    Raises:
        UsageError: for anything else.
    """
    if _ID.fullmatch(value) or _TRIAL_ID.fullmatch(value):
        return value
    raise UsageError(
        f"{value!r} is not an id",
        why="an id looks like exp-1m3k9zq4w7c or exp-1m3k9zq4w7c.t0003",
        mend="`burst ls` prints the ids there are",
    )


def _base32(value: int, width: int) -> str:
    digits = []
    for _ in range(width):
        value, digit = divmod(value, 32)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
