"""Arrow columns seen as NumPy arrays, without a copy, however many chunks they lie in.

A column of a Hugging Face dataset is a list of chunks, often a thousand rows each, which all lie
in one memory-mapped file. Gathering 64 random rows chunk by chunk costs 64 small calls a column.
So a column's chunks are seen as *one* array, from the lowest of their addresses to the highest;
a row is then a number in that array (where its chunk begins, and its place there) and a batch is
a single `take`. What lies between the chunks is never read.

A place is a pair of arrays (`chunk`, `local`) that broadcast against each other; `chunk` is the
plain number 0 where there is only one. Every column's `take` answers in the shape of `local`.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from burst.harness.data.errors import DataError

Numbers = NDArray[np.int64]
Chunk = Numbers | int


class Pad(Protocol):
    """How a column's lists are made one width."""

    @property
    def fill(self) -> float: ...

    def width(self, longest: int) -> int: ...

    def shift(self, width: int, lengths: Numbers) -> Numbers:
        """How far from the left each list begins."""
        ...


class CannotGather(Exception):
    """The column is of a kind that is left to its dataset."""


class Column(Protocol):
    """A column, or a list column's values."""

    def take(self, chunk: Chunk, local: Numbers) -> NDArray[Any]: ...


class Places:
    """Where rows lie: their chunk, and their place in it."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        lengths = [len(chunk) for chunk in column.chunks]
        self._starts = np.cumsum([0, *lengths[:-1]], dtype=np.int64)
        self._single = len(lengths) <= 1

    def of(self, rows: Numbers) -> tuple[Chunk, Numbers]:
        if self._single:
            return 0, rows
        chunk = np.searchsorted(self._starts, rows, side="right") - 1
        return chunk, rows - self._starts[chunk]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and np.array_equal(self._starts, other._starts)

    __hash__ = None  # type: ignore[assignment]


class PlainColumn:
    """Integers and floats of 1 to 8 bytes."""

    def __init__(self, chunks: list[pa.Array]) -> None:
        dtype = np.dtype(chunks[0].type.to_pandas_dtype())
        buffers = [chunk.buffers()[1] for chunk in chunks]
        self._values, bases = _seen_as_one(buffers, dtype)
        self._bases = bases + _offsets(chunks)

        self._windows = (0, self._values[None])

    def take(self, chunk: Chunk, local: Numbers) -> NDArray[Any]:
        return self._values.take(self._bases[chunk] + local)

    def table(self, width: int) -> NDArray[Any]:
        """The values of a single chunk in rows: what is fastest to take from."""
        values = self._values[self._bases[0] :]
        return values[: values.size // width * width].reshape(-1, width)

    def take_runs(self, chunk: Chunk, first: Numbers, length: int) -> NDArray[Any]:
        """`length` values from each place on. Reads a row as one piece, which is what a cold
        cache wants: twice as fast as taking the values one by one."""
        if self._windows[0] != length:
            shape = (max(self._values.size - length + 1, 0), length)
            strides = self._values.strides * 2
            self._windows = (length, as_strided(self._values, shape, strides, writeable=False))
        rows: NDArray[Any] = self._windows[1][self._bases[chunk] + first]
        return rows


class BoolColumn:
    """Booleans, a bit each."""

    def __init__(self, chunks: list[pa.Array]) -> None:
        buffers = [chunk.buffers()[1] for chunk in chunks]
        self._bytes, bases = _seen_as_one(buffers, np.dtype(np.uint8))
        self._bases = bases * 8 + _offsets(chunks)

    def take(self, chunk: Chunk, local: Numbers) -> NDArray[np.bool_]:
        place = self._bases[chunk] + local
        bits = self._bytes.take(place >> 3) >> (place & 7).astype(np.uint8)
        return (bits & 1).view(np.bool_)


class FixedListColumn:
    """Lists whose length is in the type."""

    def __init__(self, chunks: list[pa.Array], name: str) -> None:
        self._length = chunks[0].type.list_size
        self._bases = _offsets(chunks)
        self._values = _values_of(chunks, name)
        self._table: NDArray[Any] | None = None
        if len(chunks) == 1 and self._length and isinstance(self._values, PlainColumn):
            self._table = self._values.table(self._length)

    def take(self, chunk: Chunk, local: Numbers) -> NDArray[Any]:
        if self._table is not None:
            rows: NDArray[Any] = self._table.take(self._bases[0] + local, axis=0)
            return rows
        first = (self._bases[chunk] + local) * self._length
        return _runs(self._values, chunk, first, self._length)

    def take_padded(
        self, chunk: Chunk, local: Numbers, pad: Pad
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """As a ListColumn's."""
        values, width = self.take(chunk, local), pad.width(self._length)
        inside = np.ones(values.shape[:2], np.bool_)
        if width == self._length:
            return values, inside
        more = width - self._length
        (first,) = pad.shift(width, np.array([self._length], np.int64)).tolist()
        around = [(0, 0), (first, more - first)]
        rest = [(0, 0)] * (values.ndim - 2)
        values = values.astype(_holding(values.dtype, pad.fill), copy=False)
        return np.pad(values, around + rest, constant_values=pad.fill), np.pad(inside, around)


class ListColumn:
    """Lists of any length."""

    def __init__(self, chunks: list[pa.Array], name: str) -> None:
        wide = pa.types.is_large_list(chunks[0].type)
        buffers = [chunk.buffers()[1] for chunk in chunks]
        self._ends, bases = _seen_as_one(buffers, np.dtype(np.int64 if wide else np.int32))
        self._bases = bases + _offsets(chunks)
        self._values = _values_of(chunks, name)
        self._name = name

    def take(self, chunk: Chunk, local: Numbers) -> NDArray[Any]:
        """Raises DataError if the lists are not of one length."""
        starts, lengths = self._bounds(chunk, local)
        length = int(lengths.flat[0]) if lengths.size else 0
        if (lengths != length).any():
            raise Ragged(self._name, lengths)
        return _runs(self._values, chunk, starts, length)

    def take_padded(
        self, chunk: Chunk, local: Numbers, pad: Pad
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Rows of one width, filled up as `pad` says, and where in them the values lie."""
        starts, lengths = self._bounds(chunk, local)
        width = pad.width(int(lengths.max(initial=0)))
        within = np.arange(width, dtype=np.int64) - pad.shift(width, lengths)[:, None]
        inside = (within >= 0) & (within < lengths[:, None])
        places = (starts[:, None] + within)[inside]
        chunks = chunk if isinstance(chunk, int) else np.repeat(chunk, lengths)
        values = self._values.take(chunks, places)
        kind = _holding(values.dtype, pad.fill)
        rows = np.full((len(local), width, *values.shape[1:]), pad.fill, kind)
        rows[inside] = values
        return rows, inside

    def _bounds(self, chunk: Chunk, local: Numbers) -> tuple[Numbers, Numbers]:
        place = self._bases[chunk] + local
        starts = self._ends.take(place).astype(np.int64, copy=False)
        return starts, self._ends.take(place + 1) - starts


class TextColumn:
    """Strings and bytes. Their values are Python's own, and a null is None."""

    def __init__(self, chunks: list[pa.Array]) -> None:
        self._chunks = chunks

    def take(self, chunk: Chunk, local: Numbers) -> NDArray[np.object_]:
        if isinstance(chunk, int):
            values = self._chunks[chunk].take(pa.array(local)).to_pylist()
        else:
            pairs = zip(chunk.tolist(), local.tolist(), strict=True)
            values = [self._chunks[number][place].as_py() for number, place in pairs]
        texts = np.empty(len(values), np.object_)
        texts[:] = values
        return texts


class Ragged(DataError):
    """Lists of several lengths where a tensor is wanted."""

    def __init__(self, name: str, lengths: Numbers) -> None:
        super().__init__(
            f"column {name!r} holds lists of several lengths, which no tensor holds",
            why=f"in this batch they have {int(lengths.min())} to {int(lengths.max())} values",
            mend="pass collate_fn=Padding() from burst.harness.data to pad them with zeros "
            '(Padding({"labels": -100}) for other values), or a collate_fn of your own',
        )


def column_of(chunks: list[pa.Array], name: str = "") -> Column:
    """The column that sees these chunks.

    Raises:
        CannotGather: if their type is left to the dataset.
        DataError: if values are missing.
    """
    kind = chunks[0].type
    if isinstance(kind, pa.ExtensionType):
        return column_of([chunk.storage for chunk in chunks], name)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return TextColumn(chunks)
    missing = sum(chunk.null_count for chunk in chunks)
    if missing:
        raise DataError(
            f"column {name!r} has {missing} missing values, which no tensor holds",
            why=f"its Arrow type is {kind} with nulls",
            mend="fill or filter them (dataset.map, dataset.filter), leave the column out "
            "(dataset.remove_columns), or pass a collate_fn that knows what they mean",
        )
    if pa.types.is_boolean(kind):
        return BoolColumn(chunks)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return PlainColumn(chunks)
    if pa.types.is_fixed_size_list(kind):
        return FixedListColumn(chunks, name)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ListColumn(chunks, name)
    raise CannotGather(f"{name}: {kind}")


def _values_of(chunks: list[pa.Array], name: str) -> Column:
    values = column_of([chunk.values for chunk in chunks], name)
    if isinstance(values, TextColumn):
        raise CannotGather(f"{name}: lists of strings")
    return values


def _seen_as_one(
    buffers: list[pa.Buffer | None], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], Numbers]:
    """One array over all buffers, and where in it each of them begins."""
    real = [buffer for buffer in buffers if buffer is not None and buffer.size]
    if not real:
        return np.empty(0, dtype), np.zeros(len(buffers), np.int64)
    width = dtype.itemsize
    lowest = min(buffer.address for buffer in real)
    highest = max(buffer.address + buffer.size for buffer in real)
    if any((buffer.address - lowest) % width for buffer in real) or lowest % width:
        raise CannotGather("buffers that are not aligned to their values")
    size = (highest - lowest) // width
    whole = pa.foreign_buffer(lowest, size * width, base=real)
    starts = [(b.address - lowest) // width if b is not None and b.size else 0 for b in buffers]
    return np.frombuffer(whole, dtype), np.array(starts, np.int64)


def _holding(dtype: np.dtype[Any], fill: float) -> np.dtype[Any]:
    """The type of values that are padded: -100 does not fit beside labels of 0 to 255."""
    if dtype.kind in "iu" and isinstance(fill, int):
        return np.result_type(dtype, np.min_scalar_type(fill))
    return dtype


def _offsets(chunks: list[pa.Array]) -> Numbers:
    return np.array([chunk.offset for chunk in chunks], np.int64)


def _runs(values: Column, chunk: Chunk, first: Numbers, length: int) -> NDArray[Any]:
    """`length` values from each place on, in one more dimension."""
    if length and isinstance(values, PlainColumn):
        return values.take_runs(chunk, first, length)
    deeper = chunk if isinstance(chunk, int) else chunk[..., None]
    return values.take(deeper, first[..., None] + np.arange(length, dtype=np.int64))
