"""Writing under a key that must be new, where the same bytes there are as good as one's own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from burst.core.errors import NotFound, Taken

_ATTEMPTS = 3


def put_once(
    name: str, data: memoryview, write: Callable[[], bool], read: Callable[[], bytes]
) -> None:
    """
    Args:
        name: of the blob, for people.
        write: writes `data` if nothing is there; whether nothing was.
        read: what is there; NotFound if it was deleted since.

    Raises:
        Taken: other bytes are there.
    """
    for _ in range(_ATTEMPTS):
        if write():
            return
        with suppress(NotFound):
            if read() == data:
                return
            break
    raise Taken(
        f"{name} is there already with other bytes",
        why="something else wrote it first, and it is written only once",
        mend="see which other process writes there; nothing of it was changed",
    )
