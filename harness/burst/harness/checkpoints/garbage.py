"""Python's collector of garbage, out of the way where it has nothing to find."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Make many objects that all stay: the collector would look through them again and again, and
    through the whole process's, which takes longer than to make them. For moments, and in the
    thread that trains; where it is off already, it stays off."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
