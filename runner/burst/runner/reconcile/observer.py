"""Watching leases by one's own clock, so that no two machines' clocks are ever compared."""

from __future__ import annotations

from collections.abc import Collection

from burst.core.clock import Clock
from burst.core.model import Lease

DEFAULT_LENGTH_S = 30.0
"""For a node that has registered and has no lease."""


class Observer:
    """Remembers when each lease was first seen at its present version.

    A lease has expired when it was seen unchanged for its whole length. A new observer knows
    nothing and waits the whole length once more, which is safe.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}

    def expired(self, node: str, lease: Lease | None, asked: float) -> bool:
        """Note what was read of `node`'s lease; whether it has expired (or was revoked).

        Args:
            asked: on the clock that never goes back, just before it was read.
        """
        if lease is not None and lease.revoked:
            return True
        now = self._clock.monotonic()
        version = lease.version if lease else 0
        length = lease.length if lease else DEFAULT_LENGTH_S
        seen, since = self._seen.get(node, (-1, now))
        if seen != version:
            self._seen[node] = (version, now)
            return False
        return asked - since >= length

    def begin_anew(self) -> None:
        """The store was away: whoever could not read a lease could not renew one either, so every
        wait is the whole length once more."""
        self._seen.clear()

    def forget_all_but(self, nodes: Collection[str]) -> None:
        self._seen = {node: seen for node, seen in self._seen.items() if node in nodes}
