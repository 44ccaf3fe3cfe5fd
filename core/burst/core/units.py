"""Durations and sizes as people write them, and as they are printed.

A duration is `90s`, `5m`, `2h`, `1d`, a sum of such parts in falling order (`1h30m`), or a number
of seconds. A size is `500MiB`, `1.5G`, `4GB`, or a number of bytes: `KB`, `MB`, `GB` and `TB`
count in thousands, `KiB` to `TiB` in 1024s, and the bare letters too, as container runtimes read
them.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0,
            "h": 3600.0, "d": 86400.0, "w": 604800.0}  # fmt: skip
_NUMBER = r"(?:\d+(?:\.\d+)?|\.\d+)"
_UNIT = "ms|min|s|m|h|d|w"
_PART = rf"({_NUMBER})\s*({_UNIT})"
_DURATION = re.compile(rf"{_PART}(?:\s*{_PART})*", re.IGNORECASE)
_PARTS = re.compile(_PART, re.IGNORECASE)
_SIZE = re.compile(rf"({_NUMBER})\s*([KMGT]?)(iB|i|B|)", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_PLAIN = re.compile(_NUMBER)
_TEN_THOUSAND_YEARS_S = 3.2e11
_LARGEST_SIZE = 1 << 60

DURATION_PATTERN = rf"^\s*{_NUMBER}\s*(({_UNIT})(\s*{_NUMBER}\s*({_UNIT}))*)?\s*$"
SIZE_PATTERN = rf"^\s*{_NUMBER}\s*[KMGTkmgt]?(i?[Bb]|i)?\s*$"


def parse_duration(value: str | float) -> float:
    """Seconds of a duration.

    Raises:
        ValueError: where it is none, negative, not finite, or longer than ten thousand years.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a duration is written `90s`, `5m`, `1h30m` or as a number of seconds")
    seconds = _seconds_of(value) if isinstance(value, str) else _as_float(value)
    if math.isnan(seconds) or seconds < 0:
        raise ValueError("a duration cannot be negative or not a number")
    if seconds > _TEN_THOUSAND_YEARS_S:
        raise ValueError("a duration of more than ten thousand years is a mistake")
    return seconds


def _seconds_of(text: str) -> float:
    stripped = text.strip()
    if _PLAIN.fullmatch(stripped):
        return float(stripped)
    if _DURATION.fullmatch(stripped) is None:
        raise ValueError(f"{text!r} is not a duration; write `90s`, `5m`, `2h`, `1d` or `1h30m`")
    parts = [(float(number), unit.lower()) for number, unit in _PARTS.findall(stripped)]
    factors = [_SECONDS[unit] for _, unit in parts]
    if any(after >= before for before, after in itertools.pairwise(factors)):
        raise ValueError(f"the parts of {text!r} are out of order; write the largest unit first")
    return math.fsum(number * factor for (number, _), factor in zip(parts, factors, strict=True))


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def format_duration(seconds: float) -> str:
    """The shortest exact-looking form, down to milliseconds: `1h30m`, `2.5s`, `250ms`, `0s`."""
    if not math.isfinite(seconds):
        return "never" if seconds > 0 else "?"
    sign = "-" if seconds < 0 else ""
    millis = round(abs(seconds) * 1000)
    if millis < 1000:
        return f"{sign}{millis}ms" if millis else "0s"
    if millis >= 60_000:
        millis = round(millis, -3)
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        count, millis = divmod(millis, size)
        if count:
            parts.append(f"{count}{unit}")
    if millis:
        parts.append(f"{millis / 1000:g}s")
    return sign + "".join(parts)


def parse_size(value: str | float) -> int:
    """Bytes of a size, rounded to the nearest one.

    Raises:
        ValueError: where it is none, negative, not finite, or beyond an exbibyte.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a size is written `500MiB`, `1.5G`, `4GB` or as a number of bytes")
    size = _bytes_of(value) if isinstance(value, str) else _as_float(value)
    if math.isnan(size) or size < 0:
        raise ValueError("a size cannot be negative or not a number")
    if size > _LARGEST_SIZE:
        raise ValueError("a size beyond an exbibyte is a mistake")
    return value if isinstance(value, int) else round(size)


def _bytes_of(text: str) -> float:
    match = _SIZE.fullmatch(text.strip())
    if match is None or (match[3].lower() in ("i", "ib") and not match[2]):
        raise ValueError(f"{text!r} is not a size; write `500MiB`, `1.5G`, `4GB` or a number")
    decimal = match[3].lower() == "b" and match[2]
    return float(match[1]) * float(1000 if decimal else 1024) ** _POWER[match[2].lower()]


def format_size(size: float) -> str:
    """A size for people, to one decimal: `512 B`, `1.5 GiB`."""
    scaled, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(scaled) < 1023.95:
            break
        scaled, unit = scaled / 1024, larger
    return f"{scaled:.1f}".removesuffix(".0") + f" {unit}"


def _to_seconds(value: Any) -> Any:
    return None if value is None else parse_duration(value)


def _to_bytes(value: Any) -> Any:
    return None if value is None else parse_size(value)


Seconds = Annotated[
    float,
    BeforeValidator(_to_seconds),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": DURATION_PATTERN},
            ],
            "description": "A duration: 90s, 5m, 2h, 1h30m, or a number of seconds.",
        },
        mode="validation",
    ),
]
"""A field in seconds that may be written as a duration."""

Bytes = Annotated[
    int,
    BeforeValidator(_to_bytes),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": SIZE_PATTERN},
            ],
            "description": "A size: 500MiB, 1.5G, 4GB, or a number of bytes.",
        },
        mode="validation",
    ),
]
"""A field in bytes that may be written as a size."""


def counted(number: int, noun: str) -> str:
    """`1 slot`, `2 slots`: a number of things, in words."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
