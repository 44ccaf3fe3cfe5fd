"""Keeps a trial: saves its state, brings it back, and says what is not as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from burst.core.config.experiment import WarmStart
from burst.core.model import Lengths, Trial
from burst.harness import envelope
from burst.harness.checkpoints.codec import rng
from burst.harness.checkpoints.port import CheckpointEngine, Restored, SaveRequest
from burst.harness.determinism import derive, seed_all
from burst.harness.errors import TrialError
from burst.harness.session import Session
from burst.harness.trial.callbacks import overrides
from burst.harness.trial.complaints import Complaints
from burst.harness.trial.growth import Growth
from burst.harness.trial.model_state import ModelState
from burst.harness.trial.regrouping import take_over
from burst.harness.trial.state import TrialState
from burst.harness.trial.structure import HOOK
from burst.harness.trial.warm import load_weights


class Keeper:
    def __init__(
        self,
        state: TrialState,
        session: Session,
        surroundings: Mapping[str, Any],
        start: WarmStart | None = None,
    ) -> None:
        """
        Args:
            surroundings: the envelope of this process.
            start: what to take of another trial's checkpoint, where the engine gives one.
        """
        self.validated: int | None = None
        """The batch of the last validation."""
        self.metrics: dict[str, float] = {}
        """Its metrics."""
        self.seconds = 0.0
        """Training seconds before this process."""
        self._state = state
        self._session = session
        self._surroundings = surroundings
        self._start = start or WarmStart(checkpoint="")
        self._saved: int | None = None
        self._untold = False
        """Whether a save may be durable of which callbacks have not heard."""
        self._restored: Restored | None = None
        self._notes: list[str] = []
        self._complaints = Complaints()
        callbacks = state.callbacks.values()
        self._growth = Growth(made_again=any(overrides(each, HOOK) for each in callbacks))

    # --- saving -----------------------------------------------------------------------------

    @property
    def fresh(self) -> bool:
        """Whether no state of this trial was saved or restored yet."""
        return self._saved is None

    @property
    def saving(self) -> bool:
        """Whether a save goes on in the background. Cheap enough for every batch."""
        engine = self._session.engine
        return engine is not None and engine.busy()

    @property
    def durable_s(self) -> float:
        """Seconds that the last save took until it was durable; 0 where that is not known."""
        engine = self._session.engine
        return 0.0 if engine is None else engine.last_durable_s

    def save(self, done: Lengths, *, dispensable: bool = False) -> float | None:
        """Save, unless this very batch is saved; returns the seconds it held training up.
        Collective. Metrics reported so far are durable before the checkpoint is.

        Args:
            dispensable: whether it may be left out where saves take longer than the time between.
        """
        session, batch = self._session, self._state.context.batch
        engine = session.engine
        if engine is None or self._saved == batch:
            return None
        self._tell_durable(engine)
        begun = session.clock.monotonic()
        models = self._state.look()
        self._tell_growth(models)
        shared = self._shared(models, done.seconds)
        for callback in self._state.callbacks.values():
            callback.on_checkpoint_save_start(shared)
        request = self._request(shared, self._state.own(models), done)
        request = replace(request, dispensable=dispensable)
        if not engine.save(request):
            return session.clock.monotonic() - begun
        self._saved = batch
        self.hear()
        for callback in self._state.callbacks.values():
            callback.on_checkpoint_write_end("")
        self._untold = True
        return session.clock.monotonic() - begun

    def _tell_growth(self, models: Sequence[ModelState]) -> None:
        optimizers = [wrapped.optimizer for wrapped in self._state.context.optimizers]
        if text := self._growth.news([model.saved for model in models], optimizers):
            self._session.warn("trial.structure", text)

    def prepare(self) -> None:
        """Let the engine get memory ready for states such as this one. Collective."""
        if self._session.engine is not None and self.fresh:
            models = self._state.look()
            own = self._state.own(models)
            request = self._request(self._shared(models, 0.0), own, Lengths())
            self._session.engine.prepare(request)

    def _shared(self, models: Sequence[ModelState], seconds: float) -> dict[str, Any]:
        shared = self._state.shared(models)
        shared["loop"] = {
            "validated": self.validated,
            "metrics": dict(self.metrics),
            "seconds": seconds,
            "progress": self._session.progress.state(),
        }
        return shared

    def _request(self, shared: dict[str, Any], own: dict[str, Any], done: Lengths) -> SaveRequest:
        context = self._state.context
        return SaveRequest(
            shared=shared,
            own=own,
            done=done,
            metrics=self.metrics if self.validated == context.batch else {},
            envelope=self._surroundings,
            optimizers=[wrapped.optimizer for wrapped in context.optimizers],
            ready=self._session.settle,
        )

    def _tell_durable(self, engine: CheckpointEngine) -> None:
        hook = "on_checkpoint_upload_end"
        listening = [each for each in self._state.callbacks.values() if overrides(each, hook)]
        if not listening or not self._untold or not engine.wait(0.0):
            return
        self._untold = False
        session, id = self._session, ""
        if session.chief and session.store is not None:
            id = session.store.get(Trial, session.trial).checkpoint
        id = session.distributed.broadcast(id)
        for callback in listening:
            callback.on_checkpoint_upload_end(id)

    def wait(self, timeout: float) -> bool:
        """Wait until the last state that was saved is durable; whether it is. Where it is not, the
        same batch may be saved again. Collective."""
        engine = self._session.engine
        if engine is None:
            return False
        durable = engine.wait(timeout, last=True)
        self._tell_durable(engine)
        self.hear()
        if not durable and not engine.busy():
            self._saved = None
        return durable

    @property
    def keeps(self) -> bool:
        """Whether there are checkpoints at all."""
        return self._session.engine is not None

    def hear(self) -> bool:
        """Say what became of the last saves, where it is news; whether none of them failed. The
        engine keeps the events itself."""
        engine = self._session.engine
        problems = [] if engine is None else engine.poll()
        for line in self._complaints.failed(problems):
            self._session.say(f"Warning: {line}")
        works = engine is not None and engine.saved and not engine.busy()
        if not problems and works and (line := self._complaints.worked()):
            self._session.say(line)
        return not problems

    # --- restoring --------------------------------------------------------------------------

    def restore(self) -> str | None:
        """Take on the newest checkpoint's state, all but the random states; returns its id."""
        engine = self._session.engine
        self._growth.begin(self._state.structure())
        restored = engine.restore(self._state.into()) if engine is not None else None
        for problem in engine.poll() if engine is not None else ():
            self._session.say(f"Warning: {problem}")
        if restored is None:
            return None
        shared = restored.shared
        for callback in self._state.callbacks.values():
            callback.on_checkpoint_load_start(shared)
        if restored.warm and self._start.what == "weights":
            self._take_weights(restored)
            return restored.checkpoint
        _is_whole(restored, self._session.other_start(restored.warm))
        self._state.load_shared(shared)
        self._notes = self._load_own(restored)
        self.seconds = shared["loop"]["seconds"]
        if restored.warm:  # what was validated and saved so far is not this trial's
            what = f"goes on from checkpoint {restored.checkpoint}, batch {restored.done.batches}"
            self._session.tell("trial.warm_start", what, checkpoint=restored.checkpoint)
        else:
            self.validated, self.metrics = shared["loop"]["validated"], shared["loop"]["metrics"]
            self._session.progress.load_state(shared["loop"]["progress"])
            self._saved = self._state.context.batch
        self._restored = restored
        self._session.goes_on_at(self._state.context.batch)
        if self._session.chief:
            self._session.restored(restored.checkpoint, self._state.context.batch)
        return restored.checkpoint

    def _take_weights(self, restored: Restored) -> None:
        models = list(self._state.context.models)
        taken = load_weights(
            models,
            restored.shared,
            checkpoint=restored.checkpoint,
            partial=self._start.partial,
        )
        text = f"starts from the weights of checkpoint {restored.checkpoint}: {taken}"
        self._session.tell("trial.warm_start", text, checkpoint=restored.checkpoint)

    def _load_own(self, restored: Restored) -> list[str]:
        """Take on this rank's half, if it has one in the checkpoint; returns what another number
        of ranks makes void, for rank 0 to say."""
        own, before, now = restored.own, restored.ranks, self._session.distributed.size
        notes = []
        if now > before:
            new = f"{before} to {now - 1}" if now - before > 1 else f"{before}"
            notes.append(f"new ranks ({new}) start their random numbers from the seed")
        if own is not None:
            self._state.load_own(own, gradients=before == now)
        if before != now:
            halves = [half for half in (own, *restored.others) if half is not None]
            notes += take_over(self._state.context, self._state.metrics, halves, before)
        return notes

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


def _is_whole(restored: Restored, mend: str) -> None:
    """See that a checkpoint holds all that a trial class goes on from."""
    if not isinstance(restored.shared, dict) or "loop" not in restored.shared:
        raise TrialError(
            f"checkpoint {restored.checkpoint} does not hold the state of a trial class",
            why="it was imported, or written by a script with a loop of its own",
            mend=mend,
        )
