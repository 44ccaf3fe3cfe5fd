"""From rows to a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import default_collate

from burst.harness.data.checks import check_number
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


IGNORED = -100
"""The label that torch's cross entropy, and so a loss of transformers, leaves out."""
_MASK = "attention_mask"
_LABELS = "labels"


@dataclass(frozen=True)
class ColumnPad:
    """How one column's lists are made one width."""

    name: str
    fill: float
    left: bool
    multiple: int
    length: int | None

    def width(self, longest: int) -> int:
        """
        Raises:
            DataError: if the longest row is longer than the fixed length.
        """
        if self.length is None:
            return -(-longest // self.multiple) * self.multiple
        if longest > self.length:
            raise DataError(
                f"column {self.name!r} has a row of {longest} values, and rows are padded to "
                f"{self.length}",
                mend=f"cut them when they are made, as tokenized(…, max_length={self.length}) "
                "does, or leave `length` out to pad to the longest of each batch",
            )
        return self.length

    def shift(self, width: int, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return width - lengths if self.left else np.zeros_like(lengths)


class Padding:
    """A collate function for rows of several lengths: pads each column's lists to the longest of
    the batch. Lists of strings stay as they are.

    Args:
        values: what to pad with, by column; other columns are padded with 0.
        side: where the padding goes, "right" or "left".
        multiple: the width is rounded up to a multiple of this, for kernels that like one.
        length: the width of every batch; None is the longest row's.
        mask: the column that `attention_mask` is made of, 1 where a row has values and 0 where it
            is padded, if the rows have none.
        labels: the column that `labels` are made of, with -100 where it is padded, if the rows
            have none.

    Over a Hugging Face dataset without transforms it is applied while gathering, to the batch as a
    whole.

    Raises:
        DataError: for settings that mean nothing.
    """

    def __init__(
        self,
        values: Mapping[str, float] | None = None,
        *,
        side: str = "right",
        multiple: int = 1,
        length: int | None = None,
        mask: str | None = None,
        labels: str | None = None,
    ) -> None:
        if side not in ("right", "left"):
            raise DataError(f"side is {side!r}", mend='padding goes to the "right" or the "left"')
        for name, number in (("multiple", multiple), ("length", length)):
            if name != "length" or number is not None:
                check_number(name, number, least=1)
        self._values = {_LABELS: IGNORED, **(values or {})} if labels else dict(values or {})
        self._settings = (side == "left", multiple, length)
        self._mask = mask
        self._labels = labels

    @classmethod
    def of(
        cls,
        tokenizer: Any,
        *,
        multiple: int = 1,
        length: int | None = None,
        labels: bool = False,
    ) -> Padding:
        """As a tokenizer of transformers pads: its padding tokens on its side, an
        `attention_mask`, and -100 in `labels`, whatever made those.

        Args:
            labels: whether rows without labels are given their own ids as labels, as for a
                language model.

        Raises:
            DataError: the tokenizer has no token to pad with.
        """
        pad = tokenizer.pad_token_id
        if pad is None:
            raise DataError(
                f"{type(tokenizer).__name__} has no token to pad with",
                mend="give it one (`tokenizer.pad_token = tokenizer.eos_token`, which the "
                "attention mask hides), or pack the rows",
            )
        kind = getattr(tokenizer, "pad_token_type_id", 0)
        return cls(
            {"input_ids": pad, "token_type_ids": kind, _LABELS: IGNORED},
            side=tokenizer.padding_side,
            multiple=multiple,
            length=length,
            mask="input_ids",
            labels="input_ids" if labels else None,
        )

    def pad(self, column: str) -> ColumnPad:
        return ColumnPad(column, self._values.get(column, 0), *self._settings)

    def derived(self, name: str, values: Any, inside: Any) -> dict[str, Any]:
        """What is made of a padded column: names, and arrays (or tensors) of its shape.

        Args:
            inside: where the column has values of its own.
        """
        made: dict[str, Any] = {}
        if name == self._mask:
            made[_MASK] = inside
        if name == self._labels:
            made[_LABELS] = (torch if isinstance(values, torch.Tensor) else np).where(
                inside, values, IGNORED
            )
        return made

    def __call__(self, rows: list[Mapping[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = {}
        made: dict[str, Any] = {}
        for name in rows[0]:
            lists = _as_tensors([row[name] for row in rows])
            if isinstance(lists, list) and lists and isinstance(lists[0], torch.Tensor):
                batch[name], inside = _padded(lists, self.pad(name))
                made |= self.derived(name, batch[name], inside)
            else:
                batch[name] = lists
        return with_derived(batch, made)


def with_derived(batch: dict[str, Any], made: Mapping[str, Any]) -> dict[str, Any]:
    """The batch with what was made of its columns, as whole numbers; the rows' own stay."""
    for name, values in made.items():
        if name not in batch:
            batch[name] = torch.as_tensor(values).to(torch.int64)
    return batch


def _as_tensors(values: list[Any]) -> Any:
    """A column's lists as tensors to be padded; anything else as it goes into the batch."""
    if not isinstance(values[0], (list, tuple, np.ndarray, torch.Tensor)):
        return stack_rows(values)
    lists = [value for value in values if isinstance(value, list)]
    if any(isinstance(item, (str, bytes)) for value in lists for item in value[:1]):
        return values
    tensors = [torch.as_tensor(value) for value in values]
    return tensors if tensors[0].ndim else stack_rows(tensors)


def _padded(tensors: list[torch.Tensor], pad: ColumnPad) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows as one tensor, and where in it they lie."""
    lengths = np.array([len(tensor) for tensor in tensors], np.int64)
    width = pad.width(int(lengths.max()))
    # An empty list says neither what it is a list of nor of which shape that is.
    kind = next((tensor for tensor in tensors if len(tensor)), tensors[0])
    rows = torch.full((len(tensors), width, *kind.shape[1:]), pad.fill, dtype=kind.dtype)
    inside = torch.zeros((len(tensors), width), dtype=torch.bool)
    for number, first in enumerate(pad.shift(width, lengths).tolist()):
        last = first + len(tensors[number])
        if last > first:
            rows[number, first:last] = tensors[number]
            inside[number, first:last] = True
    return rows, inside


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
