"""Keeps a trial: saves its state, brings it back, and says what is not as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burst.core.model import Lengths, Trial
from burst.harness import envelope
from burst.harness.checkpoints import rng
from burst.harness.checkpoints.port import CheckpointEngine, Restored, SaveRequest
from burst.harness.determinism import derive, seed_all
from burst.harness.session import Session
from burst.harness.trial.callbacks import overrides
from burst.harness.trial.state import TrialState


class Keeper:
    def __init__(
        self, state: TrialState, session: Session, surroundings: Mapping[str, Any]
    ) -> None:
        """`surroundings`: the envelope of this process."""
        self.validated: int | None = None
        """The batch of the last validation."""
        self.metrics: dict[str, float] = {}
        """Its metrics."""
        self.seconds = 0.0
        """Training seconds before this process."""
        self._state = state
        self._session = session
        self._surroundings = surroundings
        self._saved: int | None = None
        self._restored: Restored | None = None
        self._notes: list[str] = []

    # --- saving -----------------------------------------------------------------------------

    def save(self, done: Lengths) -> float | None:
        """Save, unless this very batch is saved; returns the seconds it held training up.
        Collective. Metrics reported so far are durable before the checkpoint is."""
        session, batch = self._session, self._state.context.batch
        engine = session.engine
        if engine is None or self._saved == batch:
            return None
        begun = session.clock.monotonic()
        if not session.flush(session.grace):
            session.warn("checkpoint.skipped", "no checkpoint: the store does not answer")
            return None
        shared = self._state.shared()
        shared["loop"] = {
            "validated": self.validated,
            "metrics": dict(self.metrics),
            "seconds": done.seconds,
            "progress": session.progress.state(),
        }
        for callback in self._state.callbacks.values():
            callback.on_checkpoint_save_start(shared)
        engine.save(
            SaveRequest(
                shared=shared,
                own=self._state.own(),
                done=done,
                metrics=self.metrics if self.validated == batch else {},
                envelope=self._surroundings,
            )
        )
        self._saved = batch
        self._warn(engine.poll())
        for callback in self._state.callbacks.values():
            callback.on_checkpoint_write_end("")
        self._tell_durable(engine)
        return session.clock.monotonic() - begun

    def _tell_durable(self, engine: CheckpointEngine) -> None:
        hook = "on_checkpoint_upload_end"
        listening = [each for each in self._state.callbacks.values() if overrides(each, hook)]
        if not listening or not engine.wait(0.0):
            return
        session, id = self._session, ""
        if session.chief and session.store is not None:
            id = session.store.get(Trial, session.trial).checkpoint
        id = session.distributed.broadcast(id)
        for callback in listening:
            callback.on_checkpoint_upload_end(id)

    def wait(self, timeout: float) -> bool:
        """Wait until what was saved is durable; whether all of it is."""
        engine = self._session.engine
        if engine is None:
            return False
        durable = engine.wait(timeout)
        problems = engine.poll()
        self._warn(problems)
        return durable and not problems

    def _warn(self, problems: list[str]) -> None:
        for problem in problems:
            self._session.say(f"Warning: {problem}")  # the engine keeps the event itself

    # --- restoring --------------------------------------------------------------------------

    def restore(self) -> str | None:
        """Take on the newest checkpoint's state, all but the random states; returns its id."""
        engine = self._session.engine
        restored = engine.restore() if engine is not None else None
        if engine is not None:
            self._warn(engine.poll())
        if restored is None:
            return None
        shared = restored.shared
        for callback in self._state.callbacks.values():
            callback.on_checkpoint_load_start(shared)
        if restored.warm:
            self._state.load_models(shared)
            return restored.checkpoint
        self._state.load_shared(shared)
        self._notes = self._load_own(restored)
        loop = shared["loop"]
        self.validated, self.metrics = loop["validated"], loop["metrics"]
        self.seconds = loop["seconds"]
        self._session.progress.load_state(loop["progress"])
        self._saved = self._state.context.batch
        self._restored = restored
        if self._session.reporter is not None:
            self._session.reporter.base = self._state.context.batch
        if self._session.chief:
            self._session.restored(restored.checkpoint, self._state.context.batch)
        return restored.checkpoint

    def _load_own(self, restored: Restored) -> list[str]:
        """Take on this rank's half; returns what of it another number of ranks makes void."""
        own, same = restored.own, restored.ranks == self._session.distributed.size
        if own is None:
            return ["this rank has no random state of its own in the checkpoint"]
        self._state.load_own(own, gradients=same)
        if same or not any(own["gradients"]):
            return []
        return ["gradients accumulated by another number of ranks are dropped"]

    def finish_restoring(self, seed: int | None) -> None:
        """Put the random states back, last of all; at a fresh start, give every rank its own
        stream from `seed`. Says once what is not as it was."""
        rank = self._session.distributed.rank
        restored, notes = self._restored, self._notes
        if restored is not None and restored.own is not None:
            notes = notes + rng.restore(restored.own["rng"])
        elif seed is not None:
            seed_all(derive(seed, "rank", rank, self._state.context.batch))
        if restored is None:
            return
        self._restored = None
        notes = notes + envelope.differences(restored.envelope, self._surroundings)
        if notes:
            self._session.warn(
                "trial.envelope",
                "this is not the machine or the code that the checkpoint was written by, so "
                "training goes on correctly but may differ in the last bits: " + "; ".join(notes),
                differences=notes,
            )
