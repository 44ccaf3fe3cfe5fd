"""When a training is saved, and whether it is to leave: the ranks agree on both."""

from __future__ import annotations

from collections.abc import Callable

from burst.core.model import Lengths
from burst.harness.agreement import Wish
from burst.harness.session import Session
from burst.harness.trial.expected import Expected
from burst.harness.trial.keeper import Keeper
from burst.harness.trial.last import save_last
from burst.harness.trial.schedule import Schedule


class Saves:
    def __init__(
        self,
        session: Session,
        keeper: Keeper,
        schedule: Schedule,
        lengths: Callable[[float], Lengths],
    ) -> None:
        """
        Args:
            lengths: how far training is, given the seconds that it took.
        """
        self.due = False
        """Whether the Trainer would save now."""
        self.agreed = Wish.NOTHING
        """What the ranks have agreed on, and is not done yet."""
        self.expected = Expected(schedule, session.clock)
        self._session = session
        self._keeper = keeper
        self._schedule = schedule
        self._lengths = lengths
        self._started = session.clock.monotonic()

    @property
    def seconds(self) -> float:
        """Of training, those before this process too."""
        return self._keeper.seconds + self._session.clock.monotonic() - self._started

    def measure(self) -> Lengths:
        """How far training is. Safe from any thread."""
        return self._lengths(self.seconds)

    def start(self, batches: int) -> None:
        """Training begins, or goes on, at `batches`."""
        clock, progress = self._session.clock, self._session.progress
        self._started = clock.monotonic()
        self._schedule.start(self._started, batches=batches, fresh=self._keeper.fresh)
        progress.training_since = clock.now()
        progress.checkpoint_interval = self.expected

    def begin_boundary(self) -> None:
        """A step has ended, or an epoch. Collective."""
        now = self._session.clock.monotonic()
        if self._session.chief and self._schedule.pace.stepped(now, self._keeper.saving):
            self._keeper.hear()
        self.poll()

    def end_boundary(self) -> None:
        self._schedule.pace.start(self._session.clock.monotonic())

    def poll(self) -> None:
        """Collective."""
        wish = int(Wish.DRAIN) if self._session.asked() else 0
        if self._schedule.timed and self._session.chief:
            now = self._session.clock.monotonic()
            wish |= int(self._schedule.overdue(now, self.seconds))
        agreed = self._session.agreement.poll(wish)
        if agreed:  # at few steps, and flags take their time
            self.agreed |= Wish(agreed)

    def save_due(self, batches: int, *, wanted: bool, later: bool) -> None:
        """Save after so many batches, if anything asks for it.

        Args:
            wanted: whether it must be saved: a validation was the best so far.
            later: whether another boundary of the very same weights follows at once.
        """
        scheduled = self._schedule.due(batches)
        if scheduled or self.agreed:
            self.due |= bool((scheduled | self.agreed) & Wish.CHECKPOINT)
            self.agreed &= ~Wish.CHECKPOINT
        self.due |= wanted
        if self.due and not later:
            self.due = False
            self.save(dispensable=not wanted)
            self._schedule.did(Wish.CHECKPOINT, self._session.clock.monotonic())

    def save(self, *, dispensable: bool = False) -> None:
        done = self.measure()
        stall = self._keeper.save(done, dispensable=dispensable)
        if stall is not None:
            self._schedule.saved(
                int(done.batches),
                self._session.clock.monotonic(),
                stall,
                durable=self._keeper.durable_s,
                saving=self._keeper.saving,
            )

    def last(self) -> bool:
        """Save what there is now before this process leaves; whether it is durable."""
        return save_last(self._keeper, self._session, self.save)
