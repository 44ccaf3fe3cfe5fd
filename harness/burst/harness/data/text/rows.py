"""Which rows break a rule: whole columns at a time, where they lie in Arrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from burst.core.config.data_rules import DataRule, DataRules, RangeRule
from burst.harness.data.errors import DataError
from burst.harness.errors import did_you_mean

Numbers = NDArray[np.int64]
Finder = Callable[[pa.Table], Numbers]
"""Given a table, the places in it of the rows that break the rule."""
_IDS, _MASK = "input_ids", "attention_mask"
_TEXTS = ("text", "sentence", "content", "document")
_LABELS = ("labels", "label")


def finders(
    rules: DataRules, schema: pa.Schema, vocabulary: int | None
) -> dict[str, tuple[DataRule, Finder]]:
    """What looks for each rule's rows, by the rule's name.

    Raises:
        DataError: there is no column for a rule, or it cannot be looked at so.
    """
    found: dict[str, tuple[DataRule, Finder]] = {}
    if rule := rules.empty:
        found["empty"] = rule, _empty(*_of_empty(rule, schema))
    if rule := rules.all_padding:
        # Rows that are not padded yet have no mask, and are all padding if they are empty.
        found["all_padding"] = rule, _masked(_column("all_padding", rule, schema, (_MASK, _IDS)))
    if ids := rules.ids:
        most = ids.max if ids.max is not None or vocabulary is None else vocabulary - 1
        low = 0 if ids.min is None else ids.min
        full = ids.model_copy(update={"min": low, "max": most})
        name = _column("ids", ids, schema, (_IDS,))
        found["ids"] = full, _outside(name, full, None, schema, needed=False)
    if labels := rules.labels:
        name = _column("labels", labels, schema, _LABELS)
        found["labels"] = labels, _outside(name, labels, labels.ignore, schema, needed=True)
    return found


def _column(rule: str, given: DataRule, schema: pa.Schema, usual: tuple[str, ...]) -> str:
    if given.column is not None and given.column not in schema.names:
        raise DataError(
            f"the rule {rule!r} names the column {given.column!r}, which the rows do not have",
            mend=did_you_mean(given.column, schema.names),
        )
    name = given.column or next((name for name in usual if name in schema.names), None)
    if name is None:
        raise DataError(
            f"the rows have no column that the rule {rule!r} is about",
            why=f"it is about {' or '.join(usual)}, and they have {', '.join(schema.names)}",
            mend=f"name it: `{rule}: {{column: …}}`, or leave the rule out",
        )
    return name


def _of_empty(rule: DataRule, schema: pa.Schema) -> list[str]:
    """The columns that must not be empty: where the text is there too, also that, as special
    tokens are among the ids of no text."""
    first = _column("empty", rule, schema, (_IDS, *_TEXTS))
    texts = [name for name in _TEXTS if name in schema.names]
    return [first] if rule.column is not None or first != _IDS else [first, *texts[:1]]


def _empty(*names: str) -> Finder:
    def find_in(column: pa.Array) -> Numbers:
        if _is_list(column.type):
            sizes = pc.fill_null(pc.list_value_length(column), 0)
        elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            sizes = pc.fill_null(pc.utf8_length(pc.utf8_trim_whitespace(column)), 0)
        else:
            return _places(pc.is_null(column))
        return _places(pc.equal(sizes, 0))

    def find(table: pa.Table) -> Numbers:
        found = find_in(_whole(table, names[0]))
        for name in names[1:]:  # in which nothing says nothing, as the ids are there
            text = _whole(table, name)
            found = np.union1d(found, np.setdiff1d(find_in(text), _places(pc.is_null(text))))
        return found

    return find


def _masked(name: str) -> Finder:
    if name == _IDS:
        return _empty(name)

    def find(table: pa.Table) -> Numbers:
        column = _whole(table, name)
        if pa.types.is_null(column.type):
            return np.arange(len(column), dtype=np.int64)
        lengths, values = _lists(column)
        seen = np.zeros(len(column), np.bool_)
        seen[np.repeat(np.arange(len(column)), lengths)[np.nan_to_num(values) != 0]] = True
        return np.flatnonzero(~seen)

    return find


def _outside(
    name: str, rule: RangeRule, ignore: int | None, schema: pa.Schema, *, needed: bool
) -> Finder:
    """Rows with a number beyond the rule's bounds, or a missing one. Rows that have nothing at all
    are among them where a value is `needed`."""
    kind = schema.field(name).type
    while _is_list(kind):
        kind = kind.value_type
    # A part of a stream in which each row is empty says of nothing which kind it would be.
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    if not any(is_kind(kind) for is_kind in known):
        raise DataError(
            f"column {name!r} has no numbers to compare with a range", why=f"it holds {kind}"
        )

    def find(table: pa.Table) -> Numbers:
        column = _whole(table, name)
        missing = column.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_null(column.type):
            return np.flatnonzero(missing & needed)
        if not _is_list(column.type):
            values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
            return np.flatnonzero(_is_outside(values, rule, ignore) | missing)
        lengths, values = _lists(column)
        wrong = _is_outside(values, rule, ignore)
        without = np.flatnonzero(missing & needed)
        if not wrong.any():
            return without
        owners = np.repeat(np.arange(len(column), dtype=np.int64), lengths)
        return np.union1d(owners[wrong], without)

    return find


def _is_outside(values: NDArray[Any], rule: RangeRule, ignore: int | None) -> NDArray[np.bool_]:
    wrong = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), np.bool_)
    if rule.min is not None:
        wrong |= values < rule.min
    if rule.max is not None:
        wrong |= values > rule.max
    return wrong if ignore is None else wrong & (values != ignore)


def _lists(column: pa.Array) -> tuple[Numbers, NDArray[Any]]:
    """How many numbers each row has in all, and the numbers end to end. NaN is missing."""
    lengths: Numbers = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    values = column.flatten()
    while _is_list(values.type):
        inner = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
        ends = np.concatenate([[0], np.cumsum(inner)])
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        lengths = np.diff(ends[bounds])
        values = values.flatten()
    if pa.types.is_null(values.type):
        values = values.cast(pa.float64())
    return lengths, values.to_numpy(zero_copy_only=False)


def _whole(table: pa.Table, name: str) -> pa.Array:
    return pa.concat_arrays(table.column(name).chunks) if len(table) else pa.array([])


def _places(marks: pa.Array) -> Numbers:
    found: Numbers = pc.indices_nonzero(marks).to_numpy().astype(np.int64)
    return found


def _is_list(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_kind(kind) for is_kind in kinds)


def broken_by(found: Mapping[str, Numbers], row: int) -> list[str]:
    """The names of the rules that a row breaks; the rows of each are rising."""
    places = {name: np.searchsorted(rows, [row, row + 1]) for name, rows in found.items()}
    return [name for name, (first, after) in places.items() if after > first]
