"""Metric values: whatever holds one number, as a float."""

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
    except (TypeError, ValueError, RuntimeError):
        raise _not_a_number(key, value) from None


def to_floats(metrics: Mapping[str, Any]) -> dict[str, float]:
    """All metrics as floats.

    Raises:
        MetricError: if one is not a number, or a name is not a string.
    """
    if not isinstance(metrics, Mapping):
        raise MetricError(
            f"metrics are a dict of names and numbers, not {type(metrics).__name__}",
            mend='write {"loss": loss}',
        )
    for key in metrics:
        if not isinstance(key, str):
            raise MetricError(f"the metric name {key!r} is not a string")
    return {key: to_float(key, value) for key, value in metrics.items()}


def _not_a_number(key: str, value: Any) -> MetricError:
    shape = getattr(value, "shape", None)
    kind = type(value).__name__ + (f" of shape {tuple(shape)}" if shape is not None else "")
    return MetricError(
        f"the metric {key!r} is not one number but {kind}",
        mend="reduce it to one number first (`.mean()`), or leave it out",
    )
