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
from burst.core.model import Lengths
from burst.harness import envelope
from burst.harness.agreement import Wish
from burst.harness.checkpoints.codec import rng
from burst.harness.transformers.connection import Connection
from burst.harness.transformers.folders import BestFolder, needs_folders, start_of
from burst.harness.transformers.lengths import set_length
from burst.harness.transformers.loading import Followed, follow
from burst.harness.transformers.memory import Place, RankSums, TrainerMemory
from burst.harness.transformers.parts import Parts, TrainerState, data_of
from burst.harness.transformers.reports import Reports
from burst.harness.transformers.stops import why_early
from burst.harness.trial.expected import Expected
from burst.harness.trial.keeper import Keeper
from burst.harness.trial.last import save_last
from burst.harness.trial.schedule import Periods, Schedule
from burst.harness.trial.units import Scale, period_of

RESUMED = "burst"
"""What stands for a checkpoint's path where the Trainer asks whether it resumed."""


class Training:
    """Methods are called in this order: `start_from`, `prepare`, `enter`, then of every epoch
    `begin_epoch`, `at_boundary`, `epoch_ends`, `left_epoch`, and last `ends`, `ended`."""

    def __init__(self, trainer: Any, link: Connection, reports: Reports, *, kept: bool) -> None:
        """
        Args:
            kept: whether its state is saved and restored, or its metrics are all that is kept.
        """
        self.kept = kept
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
        self._schedule = Schedule(Periods(), target=None)
        self._due = False
        self._agreed = Wish.NOTHING
        self._in_boundary = False
        self._trained = False
        self._running = False
        self._empty = False
        self._started = self._session.clock.monotonic()

    # --- beginning --------------------------------------------------------------------------

    def start_from(self, given: Any) -> Any:
        """What the Trainer is to resume from by itself, where the script gave `given`: nothing,
        if burst has a checkpoint of this trial. Also sets the length that the experiment names."""
        set_length(self._trainer, self._link.length, self._session)
        if not self.kept:
            return given
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
            TrialError: the checkpoint is of another kind, or of another number of ranks.
        """
        trainer, session = self._trainer, self._session
        self._parts = Parts(trainer, session.distributed)
        self._memory = TrainerMemory(trainer)
        self._sums = RankSums(trainer)
        self._best = BestFolder(trainer)
        self._state = TrainerState(
            self._parts, {"trainer": self._memory}, self._sums, self._followed
        )
        self._state.best = self._best
        self._keeper = Keeper(self._state, session, self._surroundings(), self._link.config.start)
        self._begin()
        self._keeper.restore()
        self.entering = self._memory.restored
        if not self.entering:
            return None
        trainer.args.ignore_data_skip = False  # nothing is skipped that was not trained
        place = self._memory.place
        if place.ended and not place.pending:
            self._memory.place = place = Place(epoch=place.epoch + 1)
        return place.epoch, place.consumed

    def _begin(self) -> None:
        trainer, session = self._trainer, self._session
        batch = int(trainer.get_total_train_batch_size(trainer.args))
        every = self._link.config.checkpoints.every
        automatic = every == "auto"
        epoch = trainer.state.max_steps // max(1, int(trainer.state.num_train_epochs))
        period = period_of(None if automatic else every, Scale(epoch or None, batch))
        self._batch = batch
        self._schedule = Schedule(
            Periods(checkpoint=period, auto=automatic),
            target=int(trainer.state.max_steps),
            seconds=self._link.seconds,
            conditions=session.conditions,
        )
        progress = session.progress
        progress.metric = self._link.goal.metric
        progress.smaller_is_better = self._link.goal.smaller_is_better
        progress.target_batches = self._schedule.target
        progress.measure = self.lengths
        self._expected = Expected(self._schedule, session.clock)

    def _surroundings(self) -> dict[str, Any]:
        return envelope.capture(
            ranks=self._session.distributed.size,
            device=str(self._trainer.args.device),
            optimizers=[wrapped.optimizer for wrapped in self._parts.optimizers],
            data=data_of(self.loader),
            seed=int(self._trainer.args.seed),
            mode=self._link.config.reproducibility.mode,
        )

    @property
    def seconds_before(self) -> float:
        """Seconds of training before this process."""
        return self._keeper.seconds

    def lengths(self) -> Lengths:
        """How far it is. Safe from any thread."""
        state = self._trainer.state
        return Lengths(
            batches=int(state.global_step),
            records=int(state.global_step) * self._batch,
            epochs=float(state.epoch or 0.0),
            seconds=self._keeper.seconds + self._session.clock.monotonic() - self._started,
        )

    def tell_not_kept(self, searching: bool) -> None:
        """Say that only its metrics are kept."""
        why = (
            "hyperparameter_search trains one candidate after the other"
            if searching
            else "this trial has trained before"
        )
        self._session.warn(
            "trial.not_kept",
            f"burst keeps the metrics of this training, and no checkpoint: {why}; what an "
            "interruption ends begins anew",
        )

    # --- epochs -----------------------------------------------------------------------------

    def begin_epoch(self, given: Mapping[str, Any]) -> bool:
        """An epoch is about to be run; whether there is something of it to run.

        Args:
            given: what `_run_epoch` was given.
        """
        if self.entering:
            self._running = self._go_on(given)
            return self._running
        if not self._trained:
            self._start_clock()
        self._memory.place = Place(epoch=int(given["epoch"]))
        self._running = True
        return True

    def _go_on(self, given: Mapping[str, Any]) -> bool:
        """Begin where the restored state was taken."""
        trainer, place = self._trainer, self._memory.place
        self._put_back()
        self._start_clock()
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

    def _start_clock(self) -> None:
        self._trained = True
        clock, batch = self._session.clock, int(self._trainer.state.global_step)
        self._started = clock.monotonic()
        self._schedule.start(self._started, batches=batch, fresh=self._keeper.fresh)
        self._session.progress.training_since = clock.now()
        self._session.progress.checkpoint_interval = self._expected

    def epoch_ends(self) -> None:
        """The callbacks are told that an epoch has ended."""
        if self.kept:
            self._memory.place.ended = True

    def left_epoch(self) -> None:
        self._running = False
        self._empty = self._memory.place.is_beginning

    # --- boundaries -------------------------------------------------------------------------

    def at_boundary(self, act: Callable[[], None], grad_norm: Any, learning_rate: Any) -> None:
        """After a step or an epoch: have the Trainer log, evaluate and save what is due (`act`),
        then save or leave, if that is asked for. Collective.

        Raises:
            SystemExit: the trial was asked to leave, and its state is saved.
        """
        session, clock = self._session, self._session.clock
        if session.reporter is not None:
            session.reporter.check()
        if not self.kept:
            self._poll()
            self._leave_if_asked()
            act()
            return
        place, control = self._memory.place, self._trainer.control
        if self._running:
            place.consumed, place.exhausted = self._followed.consumed, self._followed.ended
        place.grad_norm, place.learning_rate = grad_norm, learning_rate
        place.pending = True
        self._parts.batch = int(self._trainer.state.global_step)
        if session.chief and self._schedule.pace.stepped(clock.monotonic(), self._keeper.saving):
            self._keeper.hear()
        self._poll()
        self._leave_if_asked()
        if self._agreed & Wish.END:
            control.should_training_stop = True
        if control.should_evaluate:
            self._freeze()
        self._in_boundary = True
        try:
            with self._expected.validating():
                act()
        finally:
            self._in_boundary = False
            self._thaw()
        place.pending = False
        self._save_what_is_due()
        self._schedule.pace.start(clock.monotonic())

    def _poll(self) -> None:
        wish = Wish.DRAIN if self._session.asked() else Wish.NOTHING
        if self._schedule.timed and self._session.chief and self.kept:
            now = self._session.clock.monotonic()
            wish |= self._schedule.overdue(now, self._keeper.seconds + now - self._started)
        self._agreed |= Wish(self._session.agreement.poll(int(wish)))

    def at_prediction(self) -> None:
        """After a batch of an evaluation, which may be long: leave, if that is asked for."""
        self._poll()
        self._leave_if_asked()

    def _freeze(self) -> None:
        """Remember how things stand, for a stop in the evaluation that comes."""
        self._memory.frozen = self._memory.state_dict()
        self._state.frozen = {"rng": rng.capture(), "metrics": self._sums.state()}

    def _thaw(self) -> None:
        self._memory.frozen = self._state.frozen = None

    def save_is_due(self) -> None:
        """The Trainer would save now."""
        self._due = True

    def wants_folder(self) -> bool:
        """Whether the Trainer's own folder of a checkpoint has to be written, too."""
        return needs_folders(self._trainer)

    def _save_what_is_due(self) -> None:
        reports, step = self._reports, self._parts.batch
        validated = reports.validated == step
        if validated:
            self._keeper.validated, self._keeper.metrics = step, reports.metrics
        policy = self._link.goal.policy
        wanted = validated and (policy == "all" or (policy == "best" and reports.best))
        due = (self._schedule.due(step) | self._agreed) & Wish.CHECKPOINT
        self._due |= bool(due) or wanted
        if self._due and not self._epoch_ends_next():
            self._due = False
            self._agreed &= ~Wish.CHECKPOINT
            self._save(dispensable=not wanted)
        self._schedule.did(Wish.CHECKPOINT if due else Wish.NOTHING, self._now())
        if step == self._parts.initial_batch + 1:
            self._keeper.prepare()

    def _epoch_ends_next(self) -> bool:
        """Whether the boundary of the epoch follows at once, which belongs to the same state."""
        place, control = self._memory.place, self._trainer.control
        over = control.should_epoch_stop or control.should_training_stop
        return not place.ended and (over or place.exhausted)

    def _save(self, *, dispensable: bool = False) -> None:
        stall = self._keeper.save(self.lengths(), dispensable=dispensable)
        if stall is not None:
            self._schedule.saved(
                self._parts.batch,
                self._now(),
                stall,
                durable=self._keeper.durable_s,
                saving=self._keeper.saving,
            )

    def _now(self) -> float:
        return self._session.clock.monotonic()

    # --- leaving ----------------------------------------------------------------------------

    def _leave_if_asked(self) -> None:
        if not self._agreed & Wish.DRAIN:
            return
        step = int(self._trainer.state.global_step)
        durable = self.kept and (step == 0 or save_last(self._keeper, self._session, self._save))
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
            self._start_clock()
        self._parts.batch = int(self._trainer.state.global_step)
        self._save()
        if self._session.engine is not None:
            self._session.engine.settle()

    def ended(self) -> None:
        """The Trainer has said its last; see that the last state is durable, and say what ended
        the training.

        Raises:
            BurstError: it could not be saved, so its result would be lost.
        """
        trainer, step = self._trainer, self._parts.batch
        if self._keeper.keeps and not save_last(self._keeper, self._session, self._save):
            raise BurstError(
                f"the state at batch {step} could not be saved, so training is not over",
                why="every attempt failed; the trial's log and `burst show` say how",
                mend="free the disk or mend access to it: the trial goes on from its newest "
                "checkpoint",
            )
        early = None if self._empty else why_early(trainer)
        if early is None:
            self._link.ending.completed()
        else:
            self._link.ending.stopped(early)
