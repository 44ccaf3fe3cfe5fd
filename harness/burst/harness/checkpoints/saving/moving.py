"""Bringing checkpoints to the slower tiers, behind everything else; rank 0's work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from burst.core.checkpoints.format.manifest import Manifest
from burst.core.checkpoints.tiers.places import Tiers
from burst.core.clock import Clock
from burst.core.errors import Fenced
from burst.core.model import Checkpoint
from burst.core.store.port import Store
from burst.harness.checkpoints.publish import Identity, note_copies, note_failure


@dataclass(frozen=True)
class _Load:
    record: Checkpoint
    manifest: Manifest
    last: bool

    @property
    def dispensable(self) -> bool:
        """Whether a newer one may be moved in its place."""
        return not self.last and not self.manifest.metrics


class Mover:
    """Moves one checkpoint at a time. Where moving is slower than saving, those in between are
    left out, but for what was validated, which retention may want to keep."""

    def __init__(
        self,
        store: Store,
        tiers: Tiers,
        identity: Identity,
        clock: Clock,
        failed: Callable[[Exception], None],
    ) -> None:
        """`failed` is told, in another thread, of what went wrong."""
        self._store = store
        self._tiers = tiers
        self._identity = identity
        self._clock = clock
        self._failed = failed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="burst-checkpoint-move")
        self._waiting: list[_Load] = []
        self._owed: list[_Load] = []
        """What could not be moved and nothing newer stands in for: tried again with the next."""
        self._newest: _Load | None = None
        self._busy = 0
        self._idle = threading.Condition()
        self.durable = True
        """Whether the newest checkpoint that was to be moved outlives the node."""

    def move(self, record: Checkpoint, manifest: Manifest) -> None:
        """Have a checkpoint, which is committed, brought to where it is due. Returns at once."""
        with self._idle:
            self._newest = _Load(record, manifest, last=False)
            owed, self._owed = self._owed, []
            waiting = [load for load in self._waiting if not load.dispensable]
            self._waiting = [*owed, *waiting, self._newest]
            self._busy += 1 + len(owed)
            self.durable = record.durable
        for _ in range(1 + len(owed)):
            self._thread.submit(self._work)

    def finish(self) -> None:
        """Have the newest one brought to every tier that outlives the node. Returns at once."""
        with self._idle:
            if self._newest is None:
                return
            self._waiting.append(replace(self._newest, last=True))
            self._busy += 1
        self._thread.submit(self._work)

    def wait(self, timeout: float | None) -> bool:
        """Wait until nothing is left to move; whether that is so, and the last one is durable."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._busy, timeout) and self.durable

    def close(self) -> None:
        self._thread.shutdown()

    def _work(self) -> None:
        try:
            with self._idle:
                load = self._waiting.pop(0) if self._waiting else None
            if load is not None:
                self._carry(load)
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def _carry(self, load: _Load) -> None:
        for tier in self._tiers.due(load.manifest, last=load.last):
            try:
                record = self._store.get(Checkpoint, load.record.id)
                if record.deleted is not None or record.damaged:
                    return
                copy = self._tiers.spread(load.manifest, tier)
                record = note_copies(self._store, self._identity, record.id, [copy])
                self.durable = self.durable or record.durable
            except Exception as error:
                self._tell(load, tier.url, error)
                with self._idle:
                    if not load.dispensable and load not in self._owed:
                        self._owed.append(load)
        try:
            self._tiers.prune(self._store, self._identity.fence)
        except Exception as error:
            self._failed(error)

    def _tell(self, load: _Load, url: str, error: Exception) -> None:
        batches = load.manifest.done.batches
        text = f"the checkpoint at batch {batches} was not copied to {url}: {error}"
        try:
            if not isinstance(error, Fenced):
                note_failure(self._store, self._identity, text, batches, self._clock.now())
        except Exception as unsaid:  # the warning still tells
            text = f"{text} (and the store was not told: {unsaid})"
        self._failed(error if isinstance(error, Fenced) else RuntimeError(text))
