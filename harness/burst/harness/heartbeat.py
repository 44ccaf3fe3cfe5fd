"""Whether the launchers of a gang's nodes still hear each other.

A rank that dies closes its connections, which its peers notice at once. A network that is cut
closes nothing: peers would wait until a collective times out, after ten minutes or thirty. So each
launcher counts up in the store in which they met, on the first node, and the first node looks for
the others' counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

BEAT_S = 2.0
SILENT_S = 60.0
_GOODBYE_S = 5.0
_OVER = "over"


class Heartbeat:
    """Two threads beside a launcher: one beats, and may be held up by the network for as long as
    that likes; the other only looks at the clock."""

    def __init__(
        self,
        node_rank: int,
        nodes: int,
        lost: Callable[[str], None],
        *,
        beat: float = BEAT_S,
        silent: float = SILENT_S,
    ) -> None:
        """`lost` is told once, in words and from a thread, who was not heard of for `silent`
        seconds."""
        self._node_rank = node_rank
        self._others = [rank for rank in range(nodes) if rank != node_rank]
        self._lost = lost
        self._beat_s, self._silent_s = beat, silent
        self._heard: dict[int, tuple[str, float]] = {}
        self._closed = threading.Event()
        self._beating: threading.Thread | None = None
        self._lock = threading.Lock()

    def start(self, address: str, port: int) -> None:
        """Begin where the launchers meet, once somebody listens there."""
        watcher = threading.Thread(target=self._watch, name="silence", daemon=True)
        self._beating = threading.Thread(
            target=self._beat, args=(address, port), name="heartbeat", daemon=True
        )
        watcher.start()
        self._beating.start()

    def heard_of(self, rank: int) -> bool:
        """Whether another node's launcher has been heard of."""
        with self._lock:
            return bool(self._heard.get(rank, ("", 0.0))[0])

    def close(self) -> None:
        """This node's ranks have ended, and its silence means nothing any more."""
        self._closed.set()
        if self._beating is not None:
            self._beating.join(_GOODBYE_S)

    def _beat(self, address: str, port: int) -> None:
        import torch.distributed

        c10d: Any = torch.distributed
        try:
            waits = timedelta(seconds=self._silent_s)
            store = c10d.TCPStore(address, port, is_master=False, timeout=waits)
            count = 0
            while not self._closed.wait(self._beat_s):
                count += 1
                store.set(_key(self._node_rank), str(count))
                self._hear(store)
            store.set(_key(self._node_rank), _OVER)
        except RuntimeError:
            # The first node's launcher has ended, or never began. Its agent says how.
            self._closed.set()

    def _hear(self, store: Any) -> None:
        """The first node looks for all others; to them it is heard of when it answers."""
        for rank in self._others if self._node_rank == 0 else ():
            there = store.check([_key(rank)])
            self._note(rank, store.get(_key(rank)).decode() if there else "")
        if self._node_rank:
            store.check([_key(0)])
            self._note(0, str(time.monotonic()))

    def _note(self, rank: int, value: str) -> None:
        with self._lock:
            if rank not in self._heard or self._heard[rank][0] != value:
                self._heard[rank] = (value, time.monotonic())

    def _watch(self) -> None:
        while not self._closed.wait(self._beat_s):
            now = time.monotonic()
            with self._lock:
                silent = [
                    rank
                    for rank, (value, since) in sorted(self._heard.items())
                    if value != _OVER and now - since > self._silent_s
                ]
            if silent:
                self._closed.set()
                self._lost(
                    f"node {silent[0]} of the gang was not heard of for "
                    f"{self._silent_s:g} s, though its part has not ended"
                )
                return


def _key(rank: int) -> str:
    return f"burst/heartbeat/{rank}"
