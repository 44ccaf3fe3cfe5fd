"""Records as bytes: JSON in UTF-8, metric chunks gzipped on top.

Not-a-number and infinities are the strings "NaN", "Infinity" and "-Infinity" (JSON has no others);
a field declared as a float reads them back as floats, a free JSON value keeps the string.
"""

from __future__ import annotations

import gzip
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from burst.core.errors import StoreError
from burst.core.model import Event, MetricChunk, Record
from burst.core.store.port import MAX_RECORD_BYTES

R = TypeVar("R", bound=Record)
M = TypeVar("M", bound=BaseModel)


def encode_record(record: Record) -> bytes:
    """`record` as the store keeps it: with the version that writing it gives it.

    Raises:
        ValueError: if it is too large, or holds what its kind could not be read back from (a
            field misspelt in `model_copy`, a value of another type). Both are defects of the
            caller, found here and not by whoever reads next.
    """
    unknown = record.__dict__.keys() - type(record).model_fields.keys()
    if unknown:
        raise ValueError(f"{record.kind} {record.id} has no field {', '.join(sorted(unknown))}")
    written = record.model_copy(update={"version": record.version + 1})
    return _within_limit(_to_json(written), f"{record.kind} {record.id}")


def decode_record(kind: type[R], body: bytes) -> R:
    """The record that `encode_record` made.

    Raises:
        StoreError: if this burst cannot read it, which a newer one has written then.
    """
    return _from_json(kind, body, f"a record of kind {kind.kind!r}")


def encode_event(event: Event) -> bytes:
    return _within_limit(_to_json(event), f"event {event.name}")


def decode_event(body: bytes) -> Event:
    return _from_json(Event, body, "an event")


def encode_chunk(chunk: MetricChunk) -> bytes:
    """A metric chunk, gzipped; the same chunk gives the same bytes."""
    name = f"metric chunk {chunk.trial}/{chunk.attempt}/{chunk.group}/{chunk.seq}"
    return _within_limit(gzip.compress(_to_json(chunk), compresslevel=1, mtime=0), name)


def decode_chunk(body: bytes) -> MetricChunk:
    return _from_json(MetricChunk, gzip.decompress(body), "a metric chunk")


def _within_limit(body: bytes, name: str) -> bytes:
    if len(body) > MAX_RECORD_BYTES:
        raise ValueError(f"{name} has {len(body)} bytes; the most is {MAX_RECORD_BYTES}")
    return body


def _to_json(value: BaseModel) -> bytes:
    try:
        return value.model_dump_json(warnings="error").encode()
    except PydanticSerializationError as error:
        if "surrogates not allowed" not in str(error):
            raise ValueError(f"cannot store this {type(value).__name__}: {error}") from error
    # A user's exception may quote a file name that is not UTF-8. That must not keep the record
    # of the failure out of the store, so such characters are written as escapes.
    readable = type(value).model_validate(_without_surrogates(value.model_dump()))
    return readable.model_dump_json(warnings="error").encode()


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_without_surrogates(item) for item in value)
    return value


def _from_json(kind: type[M], body: bytes, name: str) -> M:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise StoreError(
            f"cannot read {name}",
            why=f"it does not fit this version of burst: {error.errors()[0]['msg']}",
            mend="a newer burst may have written it; install that version",
        ) from error
