"""From rows to a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import default_collate

from burst.harness.data.errors import DataError

PAD_MEND = (
    "pass collate_fn=Padding() from burst.harness.data to pad them with zeros "
    '(or Padding({"labels": -100}) for other values), or a collate_fn of your own'
)


def stack_rows(rows: list[Any]) -> Any:
    """torch's default collate, with an error that says what to do.

    Raises:
        DataError: if the rows do not have one shape, or hold what no tensor holds.
    """
    try:
        return default_collate(rows)
    except (RuntimeError, TypeError, ValueError, KeyError) as error:
        raise DataError(
            f"{len(rows)} rows cannot be stacked into a batch",
            why=_first_difference(rows) or str(error),
            mend=PAD_MEND,
        ) from error


def _first_difference(rows: list[Any]) -> str:
    if not all(isinstance(row, dict) for row in rows):
        return ""
    for name in rows[0]:
        shapes = {_shape(row.get(name)) for row in rows}
        if len(shapes) > 1:
            return f"the rows' {name!r} have different shapes: " + ", ".join(sorted(shapes)[:4])
    return ""


def _shape(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return str(tuple(value.shape))
    if isinstance(value, (list, tuple)):
        return f"({len(value)},)"
    return "missing" if value is None else "()"
