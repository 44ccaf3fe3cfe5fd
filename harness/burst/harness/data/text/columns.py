"""The columns that several files have together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from burst.harness.data.errors import DataError

_MEND = (
    "write it alike everywhere, or say what it is: load(…, features=datasets.Features({…})), with "
    "every column"
)


def widest(parts: Sequence[pa.Schema], path: str) -> pa.Schema:
    """The columns of a file that is read in parts, wide enough for each.

    Raises:
        DataError: a column is of one kind in some parts and of another in others.
    """
    found = parts[0]
    for part in parts[1:]:
        if not part.equals(found):
            found = _wider(found, part, path, f"a later part of {path}")
    return found


def united(schemas: Mapping[str, pa.Schema], *, may_lack: bool) -> datasets.Features:
    """The columns of all files, by their paths, in the order of the first: numbers as wide as
    needed, and what is missing everywhere in a file of the kind that others give it.

    Args:
        may_lack: whether a file may leave a column out, as objects leave out what they lack.

    Raises:
        DataError: a file has other columns, or a column of another kind. It is named.
    """
    (first, found), *others = schemas.items()
    for path, schema in others:
        if not may_lack and (odd := set(found.names) ^ set(schema.names)):
            raise DataError(
                f"{path} has other columns than {first}",
                why=f"only one of them has {', '.join(sorted(odd))}",
                mend="give both the same columns, or name the files that are meant with a pattern",
            )
        if not schema.equals(found, check_metadata=True):
            found = _wider(found, schema, first, path)
    return datasets.Features.from_arrow_schema(found)


def check_classes(paths: Sequence[str], storage: Mapping[str, Any]) -> None:
    """Raises DataError where files of parquet give the same numbers to other names of classes:
    their reader takes the names of the first for all. Files without names are not looked into."""
    first: dict[str, list[str]] = {}
    for path in paths:
        classes = _classes(path, storage)
        first = first or classes
        for name, names in classes.items():
            if names != first.get(name, names):
                raise DataError(
                    f"the classes of column {name!r} are not numbered alike in all files",
                    why=f"they are {', '.join(first[name])} in {paths[0]} and "
                    f"{', '.join(names)} in {path}"[:2000],
                    mend="write them alike: rows.cast_column(…, datasets.ClassLabel(names=…))",
                )
        if not first:
            return


def _classes(path: str, storage: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names of classes, by column."""
    try:
        with fsspec.open(path, **storage) as file:
            schema = pq.read_schema(file)
    except (pa.ArrowInvalid, OSError):
        return {}  # it cannot be read, as its reader will say
    if b"ClassLabel" not in (schema.metadata or {}).get(b"huggingface", b""):
        return {}
    features = datasets.Features.from_arrow_schema(schema)
    return {
        name: kind.names
        for name, kind in features.items()
        if isinstance(kind, datasets.ClassLabel)
    }


def _wider(one: pa.Schema, other: pa.Schema, first: str, path: str) -> pa.Schema:
    kinds, others = (datasets.Features.from_arrow_schema(each) for each in (one, other))
    made = datasets.Features(kinds)
    for name, kind in others.items():
        known = made.setdefault(name, kind)
        if kind != known:
            made[name] = _of_both(one.field(name), other.field(name), (known, kind))
        if made[name] is None:
            raise DataError(
                f"the column {name!r} is not of one kind in all files",
                why=f"it is {one.field(name).type} in {first} and {other.field(name).type} in "
                f"{path}",
                mend=_MEND,
            )
    return made.arrow_schema


def _of_both(one: pa.Field, other: pa.Field, kinds: tuple[object, object]) -> object:
    """What holds the values of both; None if nothing does without changing them."""
    fields = [pa.schema([pa.field("column", each.type)]) for each in (one, other)]
    plain = tuple(datasets.Features.from_arrow_schema(each)["column"] for each in fields)
    if plain != kinds:  # names of classes, say, which are not the same in both
        return None
    try:
        both = pa.unify_schemas(fields, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    return datasets.Features.from_arrow_schema(both)["column"]
