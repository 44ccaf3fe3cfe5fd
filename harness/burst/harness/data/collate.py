"""From rows to a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
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


class Padding:
    """A collate function for rows of several lengths: pads each column's lists, at their end, to
    the longest of the batch. Lists of strings stay as they are.

    Args:
        values: what to pad with, by column; other columns are padded with 0.

    Over a Hugging Face dataset without transforms it is applied while gathering.
    """

    def __init__(self, values: Mapping[str, float] | None = None) -> None:
        self._values = dict(values or {})

    def fill(self, column: str) -> float:
        return self._values.get(column, 0)

    def __call__(self, rows: list[Mapping[str, Any]]) -> dict[str, Any]:
        return {name: self._padded(name, [row[name] for row in rows]) for name in rows[0]}

    def _padded(self, name: str, values: list[Any]) -> Any:
        if not isinstance(values[0], (list, tuple, np.ndarray, torch.Tensor)):
            return stack_rows(values)
        lists = [value for value in values if isinstance(value, list)]
        if any(isinstance(item, (str, bytes)) for value in lists for item in value[:1]):
            return values
        tensors = [torch.as_tensor(value) for value in values]
        if not tensors[0].ndim:
            return stack_rows(tensors)
        return torch.nn.utils.rnn.pad_sequence(
            tensors, batch_first=True, padding_value=self.fill(name)
        )


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
