"""Metrics: whatever holds one number, as a float, under a name that can be kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burst.harness.errors import MetricError


def to_float(key: str, value: Any) -> float:
    """One number: Python's, NumPy's, or a tensor or array of one element.

    Raises:
        MetricError: for anything else, naming the metric.
    """
    if type(value) is float:
        return value
    if isinstance(value, str | bytes):
        raise _not_a_number(key, value)
    try:
        item = getattr(value, "item", None)  # of a tensor that requires grad, float() would warn
        return float(value if item is None else item())
    except OverflowError:
        raise MetricError(
            f"the metric {key!r} is a number that is too large",
            why="a metric is kept as a float of 64 bits, which reaches up to 1.8e308",
            mend="report its logarithm, or leave it out",
        ) from None
    except (TypeError, ValueError, RuntimeError):
        raise _not_a_number(key, value) from None


def to_floats(metrics: Mapping[str, Any]) -> dict[str, float]:
    """All metrics as floats.

    Raises:
        MetricError: if one is not a number, or has no name that can be kept.
    """
    if not isinstance(metrics, Mapping):
        raise MetricError(
            f"metrics are a dict of names and numbers, not {type(metrics).__name__}",
            mend='write {"loss": loss}',
        )
    for key in metrics:
        check_name(key)
    return {key: to_float(key, value) for key, value in metrics.items()}


def check_name(key: Any) -> None:
    """
    Raises:
        MetricError: if a metric cannot be kept under this name.
    """
    if why := fault_of_name(key):
        raise MetricError(
            f"a metric is called {shown(key)}",
            why=f"the name of a metric is text, and {why}",
            mend='name it with a string of ordinary text, such as {"loss": loss}',
        )


def fault_of_name(name: Any) -> str:
    """Why nothing can be kept under this name, as the end of a sentence; empty where it can."""
    if not isinstance(name, str):
        return f"this is {_a(type(name).__name__)}"
    if not name.strip():
        return "this is empty"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "this has half of a surrogate pair in it, which cannot be written as UTF-8"
    return ""


def shown(value: Any) -> str:
    """What a person wrote, for the words of an error: short, in one line, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # an int of thousands of digits has none, and a class may fail at it
        return _a(type(value).__name__)
    return f"{text.splitlines()[0] if text else text:.60}"


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _not_a_number(key: str, value: Any) -> MetricError:
    shape = getattr(value, "shape", None)
    kind = type(value).__name__ + (f" of shape {tuple(shape)}" if shape is not None else "")
    return MetricError(
        f"the metric {key!r} is not one number but {kind}",
        mend="reduce it to one number first (`.mean()`), or leave it out",
    )
