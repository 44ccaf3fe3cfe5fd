"""`load`: rows from files, as a Hugging Face dataset.

The files are read by Hugging Face's own readers, once: what they make of them is kept as one Arrow
table in burst's cache (`burst.harness.data.text.cache`), under a name that follows from the files'
content, so that trials whose code lies in different folders find the same. Nothing is written to
Hugging Face's cache, and nothing is looked up on a hub.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
import fsspec

from burst.harness.data.errors import DataError
from burst.harness.data.text.cache import Cache, open_cache, sha256_of
from burst.harness.data.text.files import Files, Saved, find, no_split
from burst.harness.data.text.reading import Reader, no_rows
from burst.harness.data.text.tables import fingerprint_of, kept_table

_SHARDS = 16
"""Parts of a table that is read as a stream, so that it can be split over that many readers."""


def load(
    path: str | Path,
    *,
    split: str | None = None,
    streaming: bool = False,
    cache: str | Path | None = None,
    **options: Any,
) -> Any:
    """The rows of files: csv, tsv, json, jsonl, parquet, arrow and txt (a row a line), compressed
    or not, or a folder that `save_to_disk` wrote.

    Args:
        path: of a file, a folder or a pattern (`data/*.jsonl`), on this machine or of fsspec, such
            as s3://bucket/folder (`?endpoint_url=…` names another server than AWS).
        split: which of a folder's files, where their names tell: train, validation or test.
        streaming: read while training goes on, in the files' order, instead of once beforehand.
        cache: a folder for the table; None is burst's own on this machine.
        options: of Hugging Face's reader of the format, such as `sep`, `field`, `sample_by`,
            `features`, `column_names`.

    Returns:
        a `datasets.Dataset`; with `streaming` a `datasets.IterableDataset`.

    Raises:
        DataError: nothing is there, or it cannot be read, with what to do.
    """
    found = find(path, split)
    if isinstance(found, Saved):
        return _saved(found, split, streaming)
    options = {**found.options, **options}
    if streaming:
        with tempfile.TemporaryDirectory(prefix="burst-") as folder:
            return Reader(path, found, options, folder).stream()
    store = open_cache(cache)
    name = _fingerprint(found, options, store)
    return kept_table(store, name, lambda to: _make(path, found, options, to))


def _saved(found: Saved, split: str | None, streaming: bool) -> Any:
    try:
        rows = datasets.load_from_disk(found.folder, storage_options=dict(found.storage) or None)
    except Exception as error:
        if isinstance(error, IndexError):  # of a list of its parts, which is empty
            raise no_rows(found.folder) from error
        raise DataError(
            f"{found.folder} cannot be read as a saved dataset",
            why=f"{type(error).__name__}: {error}",
            mend="write it again with save_to_disk",
        ) from error
    if isinstance(rows, datasets.DatasetDict):
        if split is None and len(rows) == 1:
            (split,) = rows
        if split not in rows:
            raise no_split(found.folder, split, list(rows), f"it has {', '.join(rows)}")
        rows = rows[split]
    if streaming:
        return rows.to_iterable_dataset(num_shards=max(1, min(_SHARDS, len(rows))))
    return rows


def _make(path: str | Path, found: Files, options: Mapping[str, Any], to: Path) -> None:
    """Write the table that the readers make of the files."""
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=".burst-") as folder, _quiet():
        Reader(path, found, options, folder).write(to)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without progress bars, which a log shows line by line."""
    shown = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not shown:
            datasets.enable_progress_bars()


def _fingerprint(found: Files, options: Mapping[str, Any], store: Cache) -> str:
    local = not found.storage and not any("://" in path for path in found.paths)
    # An object store says by its ETag that content is another; a file here has to be read, and
    # one of a server that says nothing too.
    content = _digests(found, store.folder) if local else _versions(found)
    said = {name: str(value) for name, value in sorted(options.items())}
    return fingerprint_of("load", found.format, said, content, datasets.__version__)


def _versions(found: Files) -> list[str]:
    return [
        version or _digest(path, found.storage)
        for path, version in zip(found.paths, found.versions, strict=True)
    ]


def _digest(path: str, storage: Mapping[str, Any]) -> str:
    with fsspec.open(path, **storage) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digests(found: Files, folder: Path) -> list[str]:
    """SHA-256 of each file; one that has not changed since is not read again."""
    folder.mkdir(parents=True, exist_ok=True)
    digests = []
    for path, version in zip(found.paths, found.versions, strict=True):
        known = folder / f"{hashlib.sha256(version.encode()).hexdigest()}.seen"
        digest = known.read_text() if known.exists() else ""
        if len(digest) != 64:
            digest = sha256_of(Path(path))
            known.write_text(digest)
        digests.append(digest)
    return digests
