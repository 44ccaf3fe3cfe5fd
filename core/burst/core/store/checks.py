"""What every adapter refuses or decides alike, before it touches what it keeps."""

from __future__ import annotations

from collections.abc import Sequence

from burst.core.errors import Conflict, Fenced, UsageError
from burst.core.model import Record
from burst.core.store.port import MAX_WRITES, Delete, Put, Write

_CURSOR_DIGITS = 20


def check_writes(writes: Sequence[Write]) -> None:
    """
    Raises:
        ValueError: for more than `MAX_WRITES`, or two writes of one record: a transaction on
            DynamoDB takes one action an item.
    """
    if len(writes) > MAX_WRITES:
        raise ValueError(f"{len(writes)} writes in one commit; the most is {MAX_WRITES}")
    seen: set[tuple[str, str]] = set()
    for write in writes:
        if not isinstance(write, Put | Delete):
            continue
        key = (write.record.kind, write.record.id)
        if key in seen:
            raise ValueError(f"two writes of {key[0]} {key[1]} in one commit")
        seen.add(key)


def conflict(record: Record, found: int | None) -> Conflict:
    """`record` was to be written over another version than the one `found` (None: no record)."""
    name = f"{record.kind} {record.id}"
    if found is None:
        return Conflict(f"{name} is gone", why=f"version {record.version} was read")
    if record.version == 0:
        return Conflict(f"{name} exists already", why=f"it is at version {found}")
    return Conflict(f"{name} has changed", why=f"version {record.version} was read, now {found}")


def fenced(trial: str, token: int, found: int | None) -> Fenced:
    """A write under `token` met the token `found` (None: no trial)."""
    why = "the trial is gone" if found is None else f"its token is {found}, not {token}"
    return Fenced(f"another allocation owns trial {trial}", why=why)


def cursor_of(sequence: int) -> str:
    """Zero-padded, so that cursors compare as text."""
    return f"{sequence:0{_CURSOR_DIGITS}d}"


def sequence_of(cursor: str) -> int:
    """
    Raises:
        UsageError: if no store gave out this cursor.
    """
    if not cursor:
        return 0
    if len(cursor) == _CURSOR_DIGITS and cursor.isascii() and cursor.isdigit():
        return int(cursor)
    raise UsageError(f"{cursor!r} is not a cursor", mend="hand back one that came with events")
