"""One call of `Trainer.train`, as burst keeps it: restored where it was left, saved at its
boundaries, and left when it is asked to leave.

A boundary is what comes after a step, and after an epoch: `_maybe_log_save_evaluate`. A state is
taken there, either after it (what was due is done) or before it (`Place.pending`: what is due is
done by whoever goes on). So a stop never waits for an evaluation, and none is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from burst.core.errors import BurstError
from burst.harness.agreement import Wish
from burst.harness.checkpoints.codec import rng
from burst.harness.transformers.trainer.connection import Connection
from burst.harness.transformers.trainer.folders import needs_folders, start_of
from burst.harness.transformers.trainer.kept import Kept
from burst.harness.transformers.trainer.lengths import set_length
from burst.harness.transformers.trainer.loading import Followed, follow
from burst.harness.transformers.trainer.memory import Place
from burst.harness.transformers.trainer.reports import Reports
from burst.harness.transformers.trainer.standing import start_quietly
from burst.harness.transformers.trainer.stops import why_early
from burst.harness.trial.scaling import ScaleGuard

RESUMED = "burst"
"""What stands for a checkpoint's path where the Trainer asks whether it resumed."""


class Training:
    """Methods are called in this order: `start_from`, `prepare`, `enter`, then of every epoch
    `begin_epoch`, `at_boundary`, `epoch_ends`, `left_epoch`, and last `ends`, `ended`."""

    def __init__(self, trainer: Any, link: Connection, reports: Reports) -> None:
        self.loader: Any = None
        """The loader of the training data, as the Trainer made it."""
        self.prepared: tuple[Any, Any] | None = None
        """The model and the loader that the Trainer trains with."""
        self.entering = False
        """Whether it was restored, and its loop has not begun."""
        self._trainer = trainer
        self._link = link
        self._session = link.session
        self._reports = reports
        self._guard = ScaleGuard()
        self._running = False
        self._begun = False
        self._ran_dry = False

    # --- beginning --------------------------------------------------------------------------

    def start_from(self, given: Any) -> Any:
        """What the Trainer is to resume from by itself, where the script gave `given`: nothing,
        if burst has a checkpoint of this trial. Also sets the length that the experiment names."""
        set_length(self._trainer, self._link.terms.length, self._session)
        self._link.ending.begun()
        return start_of(self._trainer.args.output_dir, given, self._session)

    def prepare(self, model: Any, loader: Any) -> None:
        """Take what the Trainer has made and wrapped."""
        self._followed: Followed = follow(loader)
        if self._followed.told:
            self._session.say(f"burst: {self._followed.told}")
        self.prepared = model, self._followed.loader
        self._trainer.callback_handler.train_dataloader = self._followed.loader

    def enter(self) -> tuple[int, int] | None:
        """Restore the newest checkpoint into what was prepared; returns the epoch and the batch of
        it to go on at, None at a fresh start. Collective.

        Raises:
            TrialError: the checkpoint does not fit what the script makes.
        """
        trainer, session, terms = self._trainer, self._session, self._link.terms
        self._begun = False  # again, where the Trainer tries another size of batches
        kept = Kept.of(trainer, self._link, self._followed, self.loader)
        self._parts, self._memory, self._sums = kept.parts, kept.memory, kept.sums
        self._state, self._keeper, self._saves = kept.state, kept.keeper, kept.saves
        progress = session.progress
        progress.metric = terms.goal.metric
        progress.smaller_is_better = terms.goal.smaller_is_better
        self._keeper.restore()
        progress.target_batches = int(trainer.state.max_steps)
        progress.measure = self._saves.measure
        self.entering = self._memory.restored
        if not self.entering:
            return None
        self._memory.check_batch_size()
        trainer.args.ignore_data_skip = False  # nothing is skipped that was not trained
        place = self._memory.place
        if place.ended and not place.pending:
            self._memory.place = place = Place(epoch=place.epoch + 1)
        return place.epoch, place.consumed

    @property
    def seconds_before(self) -> float:
        """Seconds of training before this process."""
        return self._keeper.seconds

    # --- epochs -----------------------------------------------------------------------------

    def begin_epoch(self, given: Mapping[str, Any]) -> bool:
        """An epoch is about to be run; whether there is something of it to run.

        Args:
            given: what `_run_epoch` was given.
        """
        if self.entering:
            self._running = self._go_on(given)
            return self._running
        if not self._begun:
            self._begin()
        self._memory.place = Place(epoch=int(given["epoch"]))
        self._running = True
        return True

    def _begin(self) -> None:
        self._begun = True
        self._state.extras.begin()
        self._guard_scale()
        self._saves.start(int(self._trainer.state.global_step))

    def _go_on(self, given: Mapping[str, Any]) -> bool:
        """Begin where the restored state was taken."""
        trainer, place = self._trainer, self._memory.place
        self._put_back()
        if place.pending:
            self._at_boundary_again(given)
        control = trainer.control
        if place.is_beginning:
            control.should_epoch_stop = False
            return not control.should_training_stop
        broken_off = control.should_epoch_stop or control.should_training_stop
        if not (broken_off or place.ended or place.exhausted):
            return True
        if not place.exhausted:
            self._followed.skip_rest()
        if not place.ended:
            handler = trainer.callback_handler
            trainer.control = handler.on_epoch_end(trainer.args, trainer.state, control)
            self._at_boundary_again(given)
        return False

    def _put_back(self) -> None:
        self.entering = False
        self._memory.put_back()
        self._sums.put_back()
        self._begin()
        self._state.extras.put_back()
        self._keeper.finish_restoring(None)

    def _at_boundary_again(self, given: Mapping[str, Any]) -> None:
        trainer, place = self._trainer, self._memory.place
        trainer._maybe_log_save_evaluate(
            trainer._tr_loss,
            place.grad_norm,
            given["model"],
            given["trial"],
            given["epoch"],
            given["ignore_keys_for_eval"],
            given["start_time"],
            learning_rate=place.learning_rate,
        )

    def epoch_ends(self) -> None:
        """The callbacks are told that an epoch has ended."""
        self._memory.place.ended = True

    def left_epoch(self) -> None:
        self._running = False
        self._ran_dry = self._memory.place.is_beginning

    # --- boundaries -------------------------------------------------------------------------

    def at_boundary(self, act: Callable[[], None], grad_norm: Any, learning_rate: Any) -> None:
        """After a step or an epoch: have the Trainer log, evaluate and save what is due (`act`),
        then save or leave, if that is asked for. Collective.

        Raises:
            SystemExit: the trial was asked to leave, and its state is saved.
        """
        place, control, saves = self._memory.place, self._trainer.control, self._saves
        if self._session.reporter is not None:
            self._session.reporter.check()
        if self._running:
            place.consumed, place.exhausted = self._followed.consumed, self._followed.ended
        place.grad_norm, place.learning_rate = grad_norm, learning_rate
        place.pending = True
        self._parts.batch = int(self._trainer.state.global_step)
        self._guard_scale()
        saves.begin_boundary()
        if saves.agreed:  # seldom, and flags take their time
            self._leave_if_asked()
            if saves.agreed & Wish.END:
                control.should_training_stop = True
        if control.should_evaluate:
            self._evaluate(act)
        else:
            act()
        place.pending = False
        self._save_due()
        saves.end_boundary()

    def _evaluate(self, act: Callable[[], None]) -> None:
        self._freeze()
        try:
            with self._saves.expected.validating():
                act()
        finally:
            self._memory.frozen = self._state.frozen = None

    def _guard_scale(self) -> None:
        for scaler in self._parts.scalers:
            notice = self._guard.observe(scaler, self._parts.batch)
            if notice is not None:
                scale = {"since": notice.since, "scale": notice.scale}
                self._session.warn("trial.grad_scale", notice.text, **scale)

    def scale(self) -> dict[str, float]:
        """The loss scale, as a metric, where losses are scaled."""
        scalers = self._parts.scalers
        return {"grad_scale": float(scalers[0].get_scale())} if scalers else {}

    def at_prediction(self) -> None:
        """After a batch of an evaluation, which may be long: leave, if that is asked for."""
        self._saves.poll()
        self._leave_if_asked()

    def evaluates_with(self, name: str, loader: Any) -> None:
        """The Trainer has made, or has again, a loader of evaluation data."""
        private = self._memory.stood(name)
        if private is not None:
            start_quietly(self._trainer, name, loader, private)

    def _freeze(self) -> None:
        """Remember how things stand, for a stop in the evaluation that comes."""
        self._memory.frozen = self._memory.state_dict()
        self._state.frozen = {
            "rng": rng.capture(),
            "metrics": self._sums.state(),
            "extras": self._state.extras.state(),
        }

    def save_is_due(self) -> None:
        """The Trainer would save now."""
        self._saves.due = True

    def wants_folder(self) -> bool:
        """Whether the Trainer's own folder of a checkpoint has to be written, too."""
        return needs_folders(self._trainer)

    def _save_due(self) -> None:
        reports, step = self._reports, self._parts.batch
        place, control = self._memory.place, self._trainer.control
        validated = reports.validated == step
        if validated:
            self._keeper.validated, self._keeper.metrics = step, reports.metrics
        policy = self._link.terms.goal.policy
        wanted = validated and (policy == "all" or (policy == "best" and reports.best))
        over = place.exhausted or control.should_epoch_stop or control.should_training_stop
        self._saves.save_due(step, wanted=wanted, later=over and not place.ended)
        if step == self._parts.initial_batch + 1:
            self._keeper.prepare()

    # --- leaving ----------------------------------------------------------------------------

    def _leave_if_asked(self) -> None:
        if not self._saves.agreed & Wish.DRAIN:
            return
        step = self._parts.batch
        durable = step == 0 or self._saves.last()
        if not durable:
            self._session.warn(
                "checkpoint.lost",
                f"the state at batch {step} could not be saved; what it trained since its newest "
                "checkpoint is repeated",
            )
        self._link.ending.drained(durable)
        self._link.ending.leave()

    def ends(self) -> None:
        """Training is over: have its last state taken, before anything else is done with the
        model."""
        if self.entering:
            self._put_back()
        self._parts.batch = int(self._trainer.state.global_step)
        self._saves.save()
        if self._session.engine is not None:
            self._session.engine.settle()

    def ended(self) -> None:
        """The Trainer has said its last; see that the last state is durable, and say what ended
        the training.

        Raises:
            BurstError: it could not be saved, so its result would be lost.
        """
        if self._keeper.keeps and not self._saves.last():
            raise BurstError(
                f"the state at batch {self._parts.batch} could not be saved, so training is not "
                "over",
                why="every attempt failed; the trial's log and `burst show` say how",
                mend="free the disk or mend access to it: the trial goes on from its newest "
                "checkpoint",
            )
        whole = self._ran_dry or self._saves.agreed & Wish.END
        early = None if whole else why_early(self._trainer)
        if early is None:
            self._link.ending.completed()
        else:
            self._link.ending.stopped(early)
