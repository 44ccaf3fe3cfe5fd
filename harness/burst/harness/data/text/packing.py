"""`pack`: documents of several lengths as rows of one length, without padding.

The documents' tokens are laid end to end, in the rows' order, and cut every `length` tokens, so
that every place of a batch holds a token. Where documents end is kept in `position_ids`, which
begin again with every document and every row: that is what the attention of transformers tells
documents apart by, in each of its implementations, unless the model keeps a cache meanwhile
(`model.config.use_cache`, which its own Trainer switches off).
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch.utils.data as torch_data
from numpy.typing import NDArray

from burst.harness.data.checks import check_number, check_stream_state, is_stream
from burst.harness.data.collate import IGNORED
from burst.harness.data.errors import DataError
from burst.harness.data.stream import Stream
from burst.harness.data.text.cache import open_cache
from burst.harness.data.text.tables import (
    content_of,
    fingerprint_of,
    kept_table,
    missing_rows,
    write_table,
)
from burst.harness.errors import did_you_mean

IDS, POSITIONS, LABELS = "input_ids", "position_ids", "labels"
_ROWS_AT_ONCE = 5000
_SHOWN = 5
_LEAST, _MOST = -(2**31), 2**31 - 1
"""Of the numbers that an id may be."""
_SHORT = 2**15
"""Positions below this are kept in 16 bits."""

Tokens = NDArray[np.int32]
Numbers = NDArray[np.int64]


def pack(
    rows: Any,
    length: int,
    *,
    column: str = IDS,
    documents: bool = True,
    cache: str | Path | None = None,
) -> Any:
    """Rows of exactly `length` tokens each, made of rows of any length.

    No token is left out but those of the last row, which is not full; how many they are is in
    `info.description` of a map-style dataset. A document that does not fit goes on in the next
    row. Rows that are in an order by their subject are better shuffled first
    (`rows.shuffle(seed=1)`), since packed rows are neighbours.

    Args:
        rows: as `tokenized` gives them, map-style (then the result is kept in burst's cache) or
            streaming (then it is a stream, whose place is exact to the token).
        length: tokens of a row.
        column: the column of the token ids.
        documents: keep the documents' bounds: `position_ids`, from 0 in every document and row,
            and `labels`, the ids with -100 at the first token of each, which nothing before it
            foretells. Without, there are `input_ids` alone, and attention crosses the bounds.
        cache: a folder for the table; None is burst's own on this machine.

    Returns:
        `input_ids` (int32), `position_ids` and `labels`; of a stream, int64.

    Raises:
        DataError: there is no such column, an id is missing or too large, or there are too few
            tokens for a row.
    """
    check_number("length", length, least=1)
    if is_stream(rows):
        return PackedStream(rows, length, column, documents=documents)
    _check(rows, column)
    store = open_cache(cache)
    name = fingerprint_of("pack", content_of(rows), length, column, documents)
    work = _Work(rows.select_columns([column]), length, documents)
    packed = kept_table(store, name, work.write)
    if not len(packed):
        raise DataError(
            f"{len(rows)} rows have too few tokens for one of {length}",
            mend="pack to a smaller length, or give more text",
        )
    tokens = _tokens(rows, column)
    left = tokens - len(packed) * length
    packed.info.description = (
        f"{len(packed)} rows of {length} tokens, packed from {len(rows)}; {left} of {tokens} "
        "tokens are left out at the end"
    )
    return packed


@dataclass(frozen=True)
class _Work:
    rows: datasets.Dataset
    length: int
    documents: bool

    def write(self, to: Path) -> None:
        kinds = {IDS: "int32"}
        if self.documents:
            kinds |= {POSITIONS: "int16" if self.length <= _SHORT else "int32", LABELS: "int32"}
        features = datasets.Features(
            {
                name: datasets.List(datasets.Value(kind), length=self.length)
                for name, kind in kinds.items()
            }
        )
        write_table(to, features, self._tables(features.arrow_schema))

    def _tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        cutter = Cutter(self.length)
        first = 0
        for table in self.rows.with_format("arrow").iter(batch_size=_ROWS_AT_ONCE):
            tokens, lengths = _flat(table.column(0), first)
            first += len(table)
            ids, positions = cutter.cut(tokens, lengths)
            columns: dict[str, NDArray[Any]] = {IDS: ids, POSITIONS: positions}
            columns[LABELS] = labels_of(ids, positions)
            yield pa.table(
                {
                    field.name: pa.FixedSizeListArray.from_arrays(
                        pa.array(columns[field.name].ravel(), field.type.value_type), self.length
                    )
                    for field in schema
                },
                schema=schema,
            )


class Cutter:
    """Lays documents end to end and cuts them into rows; what is over waits for the next ones."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.rest: Tokens = np.empty(0, np.int32)
        """Tokens that wait for a row to be full."""
        self.starts: Numbers = np.empty(0, np.int64)
        """Where in them documents begin."""

    def cut(self, tokens: Tokens, lengths: Numbers) -> tuple[Tokens, Numbers]:
        """The full rows' ids and positions, each of the shape (rows, length).

        Args:
            tokens: of some documents, end to end.
            lengths: of each.
        """
        begin = np.cumsum(lengths) - lengths + len(self.rest)
        starts = np.concatenate([self.starts, begin[lengths > 0]])
        whole = np.concatenate([self.rest, tokens])
        rows = len(whole) // self._length
        full = rows * self._length
        ids = whole[:full].reshape(rows, self._length)
        positions = _positions(starts, full, self._length).reshape(rows, self._length)
        self.rest = whole[full:].copy()
        self.starts = starts[starts >= full] - full
        return ids, positions


class PackedStream(torch_data.IterableDataset[Any]):
    """A stream's documents, packed. Its place is the stream's own, and the tokens that wait for a
    row to be full."""

    def __init__(self, rows: Any, length: int, column: str, *, documents: bool) -> None:
        super().__init__()
        known = getattr(rows, "column_names", None)
        if known and column not in known:
            raise _no_column(column, known)
        check_stream_state(rows)
        self._stream = Stream(rows)
        self._rows = self._stream.opened()
        self._length = length
        self._column = column
        self._documents = documents
        self._rest: Tokens = np.empty(0, np.int32)
        self._starts: list[int] = []
        self._place = self._beginning()
        self._is_open = False
        # What burst's reader of streams asks of one.
        self.keeps_place = self._stream.keeps_place
        self._distributed = getattr(rows, "_distributed", None)
        own = getattr(rows, "_fingerprint", None) or type(rows).__qualname__
        self.column_names = [IDS, POSITIONS, LABELS] if documents else [IDS]
        self._fingerprint = f"{own}-packed-{length}-{column}-{documents}"

    def set_epoch(self, epoch: int) -> None:
        if hasattr(self._rows, "set_epoch"):
            self._rows.set_epoch(epoch)

    def __iter__(self) -> Iterator[dict[str, NDArray[np.int64]]]:
        """From where `load_state_dict` has put it, or from the beginning. Tokens that are over at
        the end are left out."""
        place, self._place = self._place, self._beginning()
        self._rest = np.frombuffer(base64.b64decode(place["rest"]), np.int32)
        self._starts = list(place["starts"])
        self._rows.load_state_dict(place["rows"])
        rows = iter(self._rows)
        self._is_open = True
        while True:
            while len(self._rest) >= self._length:
                yield self._cut()
            row = next(rows, None)
            if row is None:
                break
            self._add(row)
        self._is_open = False

    def state_dict(self) -> dict[str, Any]:
        """Where it is: after the row that it gave last."""
        if not self._is_open:
            return self._place
        rest = base64.b64encode(self._rest.tobytes()).decode()
        return {"rows": self._rows.state_dict(), "rest": rest, "starts": list(self._starts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._place, self._is_open = state, False

    def _add(self, row: Any) -> None:
        tokens = _ids(row[self._column], self._column)
        if len(tokens):
            self._starts.append(len(self._rest))
            self._rest = np.concatenate([self._rest, tokens])

    def _cut(self) -> dict[str, NDArray[np.int64]]:
        ids, self._rest = np.split(self._rest, [self._length])
        positions = _positions(np.array(self._starts, np.int64), self._length, self._length)
        self._starts = [at - self._length for at in self._starts if at >= self._length]
        made: dict[str, NDArray[Any]] = {IDS: ids}
        if self._documents:
            made |= {POSITIONS: positions, LABELS: labels_of(ids, positions)}
        return {name: values.astype(np.int64) for name, values in made.items()}

    def _beginning(self) -> dict[str, Any]:
        return {"rows": copy.deepcopy(self._stream.beginning), "rest": "", "starts": []}


def labels_of(ids: Tokens, positions: Numbers) -> Tokens:
    """The ids, but at the first token of a document, which follows from nothing in the row."""
    return np.where(positions == 0, np.int32(IGNORED), ids)


def _positions(starts: Numbers, number: int, length: int) -> Numbers:
    """Of the first `number` tokens in rows of `length`, the place of each in its document; a row
    begins anew too, since what was before it is not there to be looked at."""
    places = np.arange(number, dtype=np.int64)
    begun = np.where(places % length == 0, places, 0)
    begun[starts[starts < number]] = starts[starts < number]
    return places - np.maximum.accumulate(begun)


def _flat(column: pa.ChunkedArray, first: int) -> tuple[Tokens, Numbers]:
    """A column of lists as its values end to end, and how many each row has.

    Args:
        first: the number of the first row.

    Raises:
        DataError: an id is missing, or too large to be one.
    """
    lengths: Numbers = pc.list_value_length(column).to_numpy().astype(np.int64, copy=False)
    tokens = pc.list_flatten(column)
    if tokens.null_count:
        place, value = pc.index(pc.is_null(tokens), True).as_py(), None
    else:
        values = tokens.to_numpy()
        place, value = _too_large(values)
        if value is None:
            return values.astype(np.int32, copy=False), lengths
    row = first + int(np.searchsorted(np.cumsum(lengths), place, side="right"))
    raise _no_id(value, f"row {row}")


def _ids(value: Any, column: str) -> Tokens:
    """The same of one row of a stream, whatever its format."""
    where = f"a row of the stream, in {column!r}"
    if value is None:
        raise DataError(
            f"column {column!r} is missing in a row of the stream",
            mend="leave such rows out: checked(rows, {'empty': 'drop'}) from burst.harness.data",
        )
    try:
        found = np.asarray(value)
    except ValueError:  # lists of several lengths
        found = np.empty((1, 1))
    if not found.size and found.ndim == 1:
        return np.empty(0, np.int32)
    if found.ndim == 1 and found.dtype.kind in "iu":
        _, large = _too_large(found)
        if large is not None:
            raise _no_id(large, where)
        return found.astype(np.int32)
    for each in value if isinstance(value, list) else ():
        if each is None or (isinstance(each, int) and not _LEAST <= each <= _MOST):
            raise _no_id(each, where)
    raise DataError(
        f"column {column!r} holds no token ids",
        why=f"a row of it is {value!r}"[:200],
        mend="a row's ids are a list of whole numbers, as tokenized(…) makes it",
    )


def _too_large(values: NDArray[Any]) -> tuple[int, int | None]:
    """Where the first number is that 32 bits do not hold, and the number; None if all are held."""
    if np.can_cast(values.dtype, np.int32):
        return 0, None
    odd = np.flatnonzero((values < _LEAST) | (values > _MOST))
    return (int(odd[0]), int(values[odd[0]])) if len(odd) else (0, None)


def _no_id(value: int | None, where: str) -> DataError:
    said = "is missing" if value is None else f"is {value}, which 32 bits do not hold"
    return DataError(
        f"a token id of {where} {said}",
        mend="mend the rows, or leave them out: checked(rows, {'ids': {'max': …, 'on': 'drop'}}) "
        "from burst.harness.data",
    )


def _tokens(rows: datasets.Dataset, column: str) -> int:
    """How many there are in all."""
    if rows._indices is None:  # a selection's numbers, which have no public name
        return pc.sum(pc.list_value_length(rows.data.column(column))).as_py() or 0
    tables = rows.select_columns([column]).with_format("arrow").iter(batch_size=_ROWS_AT_ONCE)
    return sum(pc.sum(pc.list_value_length(table.column(0))).as_py() or 0 for table in tables)


def _check(rows: Any, column: str) -> None:
    if not isinstance(rows, datasets.Dataset):
        raise DataError(
            f"{type(rows).__name__} cannot be packed",
            why="a dataset of Hugging Face with lists of token ids is wanted",
            mend="tokenized(load(path), tokenizer) gives one",
        )
    if column not in rows.column_names:
        raise _no_column(column, rows.column_names)
    if not len(rows):
        raise DataError(
            "there are no rows to pack", mend="look at how they are loaded or filtered"
        )
    kind = rows.data.column(column).type
    if not (_is_list(kind) and pa.types.is_integer(kind.value_type)):
        raise DataError(f"column {column!r} holds no token ids", why=f"its Arrow type is {kind}")
    missing = missing_rows(rows, column)
    if missing:
        raise DataError(
            f"column {column!r} is missing in {len(missing)} rows",
            why=f"rows {', '.join(map(str, missing[:_SHOWN]))}"
            + (" and others" if len(missing) > _SHOWN else ""),
            mend="leave them out: checked(rows, {'empty': 'drop'}) from burst.harness.data",
        )


def _is_list(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_kind(kind) for is_kind in kinds)


def _no_column(name: str, known: Sequence[str]) -> DataError:
    return DataError(
        f"there is no column {name!r} to pack",
        why=f"the rows have {', '.join(known)}",
        mend=f"tokenise them first, or name the column; {did_you_mean(name, known)}",
    )
