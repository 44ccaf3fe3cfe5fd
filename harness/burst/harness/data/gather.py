"""Batches straight from memory, for datasets whose rows need no code of the user's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Subset, TensorDataset

from burst.harness.data.arrow import (
    CannotGather,
    Column,
    FixedListColumn,
    ListColumn,
    Places,
    column_of,
)
from burst.harness.data.collate import Padding, with_derived
from burst.harness.data.permutation import Rows


class Gather(Protocol):
    """Rows to a batch of tensors."""

    def batch(self, rows: Rows) -> Any: ...


def gather_of(dataset: Any, padding: Padding | None = None) -> Gather | None:
    """How to gather the dataset's rows; None where its own code has to run.

    That is so for transforms, formats other than torch's, features that are decoded (images,
    audio) and datasets of unknown kinds.

    Raises:
        DataError: if a column of numbers has missing values.
    """
    if type(dataset) is Subset:
        whole: Any = dataset.dataset
        inner = gather_of(whole, padding)
        return inner and _selected(inner, dataset.indices, len(whole))
    if type(dataset) is TensorDataset:
        return None if padding else _Tensors(dataset)
    if is_hugging_face(dataset) and _is_plain(dataset):
        try:
            return _Table(dataset, padding)
        except CannotGather:
            return None
    return None


def _selected(inner: Gather, indices: Sequence[int], size: int) -> Gather | None:
    rows = np.asarray(indices, np.int64)
    inside = rows.size and rows.min() >= 0 and rows.max() < size
    return _Selected(inner, rows) if inside else None


class _Selected:
    def __init__(self, inner: Gather, indices: Rows) -> None:
        self._inner = inner
        self._indices = indices

    def batch(self, rows: Rows) -> Any:
        return self._inner.batch(self._indices.take(rows))


class _Tensors:
    def __init__(self, dataset: TensorDataset) -> None:
        self._tensors = dataset.tensors

    def batch(self, rows: Rows) -> list[torch.Tensor]:
        index = torch.from_numpy(rows)
        return [tensor.index_select(0, index) for tensor in self._tensors]


class _Table:
    """A Hugging Face dataset: a dict of tensors with the types that `with_format("torch")` gives
    (whole numbers int64, floats float32, booleans), and lists of strings."""

    def __init__(self, dataset: Any, padding: Padding | None) -> None:
        table = dataset.data.table
        # The mapping of a shuffled, selected or filtered dataset has no public name.
        mapping = dataset._indices
        self._mapping = None if mapping is None else _Group(mapping.table.column(0))
        self._padding = padding
        self._groups: list[_Group] = []
        names = dataset.format["columns"]
        self._names: list[str] = names
        for name in names:
            self._add(name, table.column(name))

    def _add(self, name: str, values: Any) -> None:
        places = Places(values)
        for group in self._groups:
            if group.places == places:
                group.columns[name] = column_of(values.chunks, name)
                return
        self._groups.append(_Group(values, name))

    def batch(self, rows: Rows) -> dict[str, Any]:
        if self._mapping is not None:
            rows = self._mapping.rows(rows)
        batch: dict[str, Any] = {}
        made: dict[str, Any] = {}
        for group in self._groups:
            chunk, local = group.places.of(rows)
            for name, column in group.columns.items():
                if self._padding is not None and isinstance(column, ListColumn | FixedListColumn):
                    values, inside = column.take_padded(chunk, local, self._padding.pad(name))
                    made |= self._padding.derived(name, values, inside)
                else:
                    values = column.take(chunk, local)
                batch[name] = _tensor(values)
        if len(self._groups) > 1:
            batch = {name: batch[name] for name in self._names}
        return with_derived(batch, made) if made else batch


class _Group:
    """Columns that are cut into chunks alike."""

    def __init__(self, values: Any, name: str = "") -> None:
        self.places = Places(values)
        self.columns: dict[str, Column] = {name: column_of(values.chunks, name)}

    def rows(self, rows: Rows) -> Rows:
        (column,) = self.columns.values()
        return column.take(*self.places.of(rows)).astype(np.int64, copy=False)


def _tensor(values: NDArray[Any]) -> Any:
    kind = values.dtype.kind
    if kind == "O":
        return values.tolist()
    if kind in "iu":
        values = values.astype(np.int64, copy=False)
    elif kind == "f":
        values = values.astype(np.float32, copy=False)
    return torch.from_numpy(values)


def is_hugging_face(dataset: Any) -> bool:
    module = sys.modules.get("datasets")  # not imported: then it is none of its datasets
    return module is not None and type(dataset) is module.Dataset


def _is_plain(dataset: Any) -> bool:
    form = dataset.format
    features = dataset.features
    return (
        form["type"] in (None, "torch")
        and not form["format_kwargs"]
        and not (form["output_all_columns"] and set(form["columns"]) != set(dataset.column_names))
        and len(dataset) > 0
        and all(_is_stored_as_seen(features[name]) for name in form["columns"])
    )


def _is_stored_as_seen(feature: Any) -> bool:
    """Whether what lies in Arrow is what a reader gets, so nothing has to be decoded."""
    kind = type(feature).__name__
    if kind in ("List", "LargeList", "Sequence"):
        return _is_stored_as_seen(feature.feature)
    return kind in ("Value", "ClassLabel", "Array2D", "Array3D", "Array4D", "Array5D")
