"""Files through Hugging Face's own readers: all at once, one by one, or as a stream.

The readers take names for patterns, and say of many files that one is wrong without saying which.
Here names are names; what a reader says comes with the file that it was reading; and parts that
hold the same columns in another order, or the same numbers wider, are one table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
from datasets.data_files import DataFilesList

from burst.harness.data.errors import DataError
from burst.harness.data.text.columns import check_classes, united, widest
from burst.harness.data.text.files import Files
from burst.harness.data.text.tables import write_table

_ROWS_AT_ONCE = 10_000
_UNNAMED = "__index_level_0__"
"""What the first column of a csv becomes if its rows have more fields than its header."""


@dataclass(frozen=True)
class Reader:
    """Reads the files of one split."""

    path: str | Path
    """What was asked for, as errors name it."""
    files: Files
    options: Mapping[str, Any]
    """Of Hugging Face's reader."""
    folder: str
    """For what that one keeps meanwhile."""

    def write(self, to: Path) -> None:
        """Write the files' rows as one table.

        Raises:
            DataError: a file cannot be read or does not fit the others (it is named), or there is
                no row in any of them.
        """
        self._check_classes()
        try:
            rows = self._rows(self.files.paths, streaming=False)
            if self._is_shifted(rows.column_names):
                raise ValueError("a file has fewer names than columns")
        except Exception:  # because of one file, or as they differ: read one by one, they tell
            features, tables = self._one_by_one()
        else:
            arrow = rows.with_format("arrow")
            features, tables = rows.features, arrow.iter(batch_size=_ROWS_AT_ONCE)
        write_table(to, features, tables)

    def stream(self) -> Any:
        """The files' rows, read while they are asked for.

        Raises:
            DataError: a file cannot be read, now or once its turn comes.
        """
        self._check_classes()
        try:
            rows = self._rows(self.files.paths, streaming=True)
        except Exception as error:
            if not any([self._opened(path) for path in self.files.paths]):
                raise no_rows(self.path) from None
            raise self._unreadable(self.files.paths, error) from error
        return self._guarded(rows)

    def _check_classes(self) -> None:
        if self.files.format == "parquet" and self.options.get("features") is None:
            check_classes(self.files.paths, self.files.storage)

    def _rows(self, paths: Sequence[str], *, streaming: bool) -> Any:
        return datasets.load_dataset(
            self.files.format,
            # A list of this kind is not taken for patterns. What comes with it is their versions.
            data_files={"train": DataFilesList([*paths], [(path,) for path in paths])},
            split="train",
            storage_options=dict(self.files.storage) or None,
            streaming=streaming,
            cache_dir=self.folder,
            **self.options,
        )

    def _one_by_one(self) -> tuple[datasets.Features, Iterator[pa.Table]]:
        """The columns of all files that hold rows, and the rows."""
        schemas: dict[str, pa.Schema] = {}
        for path in self.files.paths:
            parts = [table.schema for table in self._tables(path) if len(table)]
            if parts:
                schemas[path] = widest(parts, path)
        if not schemas:
            raise no_rows(self.path)
        features = united(schemas, may_lack=self.files.format == "json")
        return features, self._fitting(list(schemas), features)

    def _fitting(self, paths: Sequence[str], features: datasets.Features) -> Iterator[pa.Table]:
        for path in paths:
            for table in self._tables(path):
                with self._told(path):
                    fitting = datasets.table.table_cast(table, features.arrow_schema)
                yield fitting

    def _tables(self, path: str) -> Iterator[pa.Table]:
        rows = self._opened(path)
        if rows is not None:
            for _, table in self._guarded(rows)._ex_iterable.iter_arrow():
                yield table

    def _opened(self, path: str) -> Any:
        """One file as a stream; None if nothing is in it."""
        with self._told(path):
            try:
                return self._rows([path], streaming=True)
            except StopIteration:  # as the reader of JSON says it
                return None

    def _guarded(self, rows: Any) -> Any:
        """The stream, whose errors say in which file."""
        source = rows._ex_iterable  # which has no public name
        source.generate_tables_fn = partial(_guard, source.generate_tables_fn, self)
        return rows

    def _is_shifted(self, columns: Sequence[str] | None) -> bool:
        """Whether rows of a csv have more fields than its header names, so that each name stands
        for the column after its own."""
        asked = self.files.format != "csv" or self.options.get("index_col") is not None
        return not asked and _UNNAMED in (columns or ())

    @contextmanager
    def _told(self, *files: str) -> Iterator[None]:
        try:
            yield
        except DataError:
            raise
        except Exception as error:
            raise self._unreadable(files, error) from error

    def _unreadable(self, files: Sequence[str], error: Exception) -> DataError:
        """What a reader says, with the file that it was reading."""
        cause = error.__cause__ or error
        return DataError(
            f"{self.path} cannot be read as {self.files.format}",
            why=f"{', '.join(files[:1])}: {type(cause).__name__}: {cause}"[:2000],
            mend="mend the file that it names, or give the reader's options as load(…, sep=…, "
            "field=…, features=…)",
        )

    def guard(self, files: Sequence[str], tables: Iterator[Any]) -> Iterator[Any]:
        """Keys and tables as a reader makes them of files, of which there is one at a time."""
        with self._told(*files):
            try:
                for key, table in tables:
                    if self._is_shifted(table.column_names):
                        deque(tables, 0)  # it closes the file at its end alone
                        raise _shifted(files[0])
                    yield key, table
            except ValueError as error:
                if type(error).__name__ != "EmptyDataError":  # pandas': a csv of no bytes
                    raise


def _guard(generate: Callable[..., Iterator[Any]], reader: Reader, **given: Any) -> Iterator[Any]:
    files = given.get("base_files") or given["files"]
    return reader.guard(list(files), generate(**given))


def _shifted(file: str) -> DataError:
    return DataError(
        f"the rows of {file} have more fields than its header has names",
        why="nothing says which names belong to which fields",
        mend="name all columns in the file's first line; or give load(…, index_col=0) if the "
        "first field numbers the rows",
    )


def no_rows(path: str | Path) -> DataError:
    """What to say of files and folders without a row."""
    return DataError(
        f"there are no rows at {path}",
        why="what is there can be read, and is empty",
        mend="look at how it is written, or at which files the path names",
    )
