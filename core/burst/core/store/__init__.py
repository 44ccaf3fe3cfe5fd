"""Where records are kept: one port, several adapters, one contract suite."""

from __future__ import annotations

from pathlib import Path

from burst.core.errors import UsageError
from burst.core.store.port import Store
from burst.core.store.update import event_of, update

__all__ = ["Store", "event_of", "is_local", "open_store", "update"]


def is_local(store: Store) -> bool:
    """Whether it lies on this machine, so that looking again costs next to nothing; elsewhere each
    look is a request that is paid for."""
    return store.url.startswith(("sqlite:", "memory:"))


def open_store(url: str) -> Store:
    """The store at `url`: `sqlite:///absolute/path`, `dynamodb://table?region=…`, or `memory:`
    (within this process).

    Raises:
        UsageError: no adapter knows such a URL.
        Unreachable: the store did not answer, or its file cannot be opened.
        StoreError: what is there is not a store, is damaged, or is of a newer burst.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        from burst.core.store.memory import open_memory

        return open_memory(rest)
    if scheme == "sqlite" and rest.startswith("///") and rest != "///":
        from burst.core.store.sqlite import SqliteStore

        return SqliteStore(Path(rest[2:]))
    if scheme == "dynamodb":
        from burst.core.store.dynamodb.store import DynamoStore

        return DynamoStore(url)
    raise UsageError(
        f"{url!r} names no store",
        why="a store is sqlite:///absolute/path, dynamodb://table, or memory: for one process",
        mend="correct BURST_STORE, or `store` in burst.yaml",
    )
