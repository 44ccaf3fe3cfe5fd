"""What stays of the checkpoints of a script that runs by itself, where no experiment says it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from burst.core.blobs import open_blobs
from burst.core.checkpoints.removal.delete import delete
from burst.core.checkpoints.removal.retention import retained
from burst.core.config.experiment import Keep
from burst.core.errors import BurstError, Refused
from burst.core.model import Checkpoint
from burst.core.states import Reason
from burst.core.store.port import Store

if TYPE_CHECKING:
    from burst.harness.checkpoints.port import CheckpointEngine
    from burst.harness.session import Session

KEEP = 3
"""How many of the newest stay, unless the script says otherwise: the one to go on from, and two
before it, should that one be damaged or training have gone astray."""


def needless(records: Sequence[Checkpoint], keep: int) -> list[Checkpoint]:
    """The checkpoints of one trial that go: all but the newest `keep`, those that are pinned, and,
    of each metric that they were saved with, the ones with the lowest and the highest value, since
    nothing says which is the better. Pure."""
    there = [record for record in records if record.deleted is None]
    rule = Keep(trial_latest=keep, trial_best=1)
    open_trials = {record.trial for record in there}
    kept: set[str] = set()
    for metric in sorted({name for record in there for name in record.metrics} or {""}):
        for smaller in (True, False):
            kept |= retained(
                there, rule, metric=metric, smaller_is_better=smaller, open_trials=open_trials
            )
    return [record for record in there if record.id not in kept]


def tidy(store: Store, url: str, trial: str, keep: int) -> int:
    """Remove what is needless of a trial's checkpoints; returns how many. Idempotent.

    Args:
        url: the blobs that hold them.

    Raises:
        BurstError: if store or blobs did not answer. What is left to do, the next call does.
    """
    blobs, removed = open_blobs(url), 0
    why = Reason(
        code="keep", text=f"the script keeps the newest {keep}, the best, and pinned ones"
    )
    for record in needless(store.children(Checkpoint, trial), keep):
        with suppress(Refused):  # it is registered, or something starts from it
            delete(blobs, store, record, because=why)
            removed += 1
    return removed


def keeping(engine: CheckpointEngine, session: Session, url: str, keep: int) -> CheckpointEngine:
    """An engine that removes what is needless, behind training, once a save counts."""
    return cast("CheckpointEngine", _Keeping(engine, session, url, keep))


class _Keeping:
    def __init__(self, engine: CheckpointEngine, session: Session, url: str, keep: int) -> None:
        self._engine = engine
        self._session = session
        self._url = url
        self._keep = keep
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="burst-checkpoint-keep")
        self._due = False
        self._told = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def save(self, request: Any) -> bool:
        taken = self._engine.save(request)
        self._due = self._due or taken
        return taken

    def poll(self) -> list[str]:
        problems = self._engine.poll()
        self._look()
        return problems

    def wait(self, timeout: float | None = None, *, last: bool = False) -> bool:
        durable = self._engine.wait(timeout, last=last)
        self._look()
        return durable

    def close(self) -> None:
        self._engine.close()
        self._look()
        self._thread.shutdown()

    def _look(self) -> None:
        if self._due and self._session.chief and self._engine.saved:
            self._due = False
            self._thread.submit(self._tidy)

    def _tidy(self) -> None:
        store = self._session.store
        try:
            removed = tidy(store, self._url, self._session.trial, self._keep) if store else 0
        except BurstError as error:
            self._session.say(f"Warning: old checkpoints stay for now: {error.what}")
            return
        if removed and not self._told:
            self._told = True
            self._session.say(
                f"Older checkpoints are removed: the newest {self._keep} stay, the best, and "
                "pinned ones (keep=None keeps all)"
            )
