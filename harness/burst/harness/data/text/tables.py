"""Tables on disk: written in pieces, read without copying, and named by what they are made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.compute as pc

from burst.harness.data.text.cache import PREFIX, Cache

_VERSION = 2
"""Of what is written here; another number makes every table anew."""
_BYTES_AT_ONCE = 64 << 20
"""Of a piece: rows are gathered from few pieces faster than from many."""
_ROWS_AT_ONCE = 10_000
_END = b"\xff\xff\xff\xff\0\0\0\0"
"""How a stream of Arrow's ends."""


def write_table(path: Path, features: datasets.Features, tables: Iterable[pa.Table]) -> int:
    """Write tables of these features as one file; returns how many rows."""
    schema = features.arrow_schema
    rows = size = 0
    waiting: list[pa.Table] = []
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:

        def write() -> None:
            for batch in pa.concat_tables(waiting).combine_chunks().to_batches():
                writer.write_batch(batch)

        for table in tables:
            waiting.append(datasets.table.table_cast(table, schema))
            rows, size = rows + len(table), size + table.nbytes
            if size >= _BYTES_AT_ONCE:
                write()
                waiting, size = [], 0
        if waiting:
            write()
    return rows


def kept_table(store: Cache, fingerprint: str, make: Callable[[Path], None]) -> datasets.Dataset:
    """The table of that name as a dataset, mapped into memory; made if it is not kept.

    Args:
        make: writes it to a path.
    """
    path = store.table(fingerprint, make, _is_whole)
    rows = datasets.Dataset.from_file(str(path))
    return datasets.Dataset(rows.data, info=rows.info, fingerprint=fingerprint)


def _is_whole(path: Path) -> bool:
    """Whether a file can be read from its first piece to its end; of the values themselves nothing
    is read."""
    try:
        with pa.memory_map(str(path)) as file:
            pa.ipc.open_stream(file).read_all()
            file.seek(max(0, file.size() - len(_END)))
            # One that is cut between two pieces can be read too.
            return bytes(file.read()) == _END
    except (pa.ArrowInvalid, OSError):
        return False


def fingerprint_of(*parts: Any) -> str:
    """A name that follows from the parts: numbers, texts, lists and mappings of them."""
    text = json.dumps([_VERSION, *parts], sort_keys=True)
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:40]


def content_of(rows: datasets.Dataset) -> str:
    """A name of the rows' content: of their own, if that follows from it already, or else of
    every value, whatever files and chunks they lie in."""
    own: str = rows._fingerprint  # which has no public name
    if own.startswith(PREFIX):
        return own
    found = hashlib.sha256(json.dumps(rows.features.to_dict(), sort_keys=True).encode())
    for table in rows.with_format("arrow").iter(batch_size=_ROWS_AT_ONCE):
        for batch in table.replace_schema_metadata(None).combine_chunks().to_batches():
            found.update(batch.serialize())
    return found.hexdigest()


def missing_rows(rows: datasets.Dataset, name: str) -> list[int]:
    """The rows in which a column has nothing, of those that are selected."""
    if not rows.data.column(name).null_count:
        return []
    found: list[int] = []
    first = 0
    for table in rows.select_columns([name]).with_format("arrow").iter(batch_size=_ROWS_AT_ONCE):
        nulls = pc.indices_nonzero(pc.is_null(table.column(name)))
        found += [first + number for number in nulls.to_pylist()]
        first += len(table)
    return found
