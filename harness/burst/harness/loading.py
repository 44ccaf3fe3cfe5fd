"""Loading what takes seconds to load.

While modules are loaded hardly anything becomes garbage, but Python looks for it again and again
in all that is loaded already: a quarter of the seconds until a trial trains.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Look for no garbage within the block, and later not among what was loaded in it."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collected:
            gc.enable()
