"""What a rank is connected to: its gang, the store, checkpoints, and who may ask it to stop."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from burst.core.clock import Clock, SystemClock
from burst.core.errors import Unreachable
from burst.core.launch import Outcome
from burst.core.model import Event
from burst.core.store.port import Store
from burst.harness.agreement import Agreement, Alone
from burst.harness.checkpoints.port import CheckpointEngine
from burst.harness.distributed import DistributedContext, Place
from burst.harness.progress import Progress
from burst.harness.reporting import Reporter
from burst.harness.trial.interval import Conditions


def _nobody() -> bool:
    return False


@dataclass
class Session:
    """One rank's connections. The defaults are those of a lone process outside any experiment."""

    distributed: DistributedContext = field(default_factory=lambda: DistributedContext(Place()))
    agreement: Agreement = field(default_factory=Alone)
    progress: Progress = field(default_factory=Progress)
    reporter: Reporter | None = None
    """On rank 0, where there is a store."""
    store: Store | None = None
    engine: CheckpointEngine | None = None
    """Where there are checkpoints."""
    asked: Callable[[], bool] = _nobody
    """Whether this rank was asked to drain; looked at after every batch."""
    clock: Clock = field(default_factory=SystemClock)
    experiment: str = ""
    trial: str = ""
    loud: bool = False
    """Whether metrics are printed as well, for people who run a script by hand."""
    outcome: Outcome | None = None
    """How training ended, once it has."""
    grace: float = 600.0
    """Seconds that leaving may take."""
    conditions: Conditions = field(default_factory=Conditions)
    """What the launch says of losses where it runs."""
    restored: Callable[[str, int], Any] = lambda checkpoint, batches: None
    """Told, on rank 0, of the checkpoint that training continues from."""

    @property
    def chief(self) -> bool:
        return self.distributed.rank == 0

    def report(self, group: str, batches: int, metrics: dict[str, float]) -> None:
        """Report metrics that are already over all ranks; only rank 0 does anything."""
        if not self.chief:
            return
        self.progress.reported(group, batches, metrics)
        if self.reporter is not None:
            self.reporter.report(group, batches, metrics)
            if group == "validation" and self.progress.search is not None:
                self.reporter.nudge()  # somebody waits to decide on it
        if self.loud:
            shown = "  ".join(f"{name} {value:.6g}" for name, value in metrics.items())
            print(f"batch {batches}  {group}  {shown}", file=sys.stderr)

    def other_start(self, warm: bool) -> str:
        """How to mend that a checkpoint is of another kind than what is to go on from it.

        Args:
            warm: whether it is another trial's, which the experiment names.
        """
        if warm:
            return "start from its weights: leave --everything out, or write `what: weights`"
        if self.loud:
            return "give another folder: this one belongs to a script of the other kind"
        return "run the code that wrote it, or start another experiment"

    def warn(self, name: str, text: str, **data: Any) -> None:
        """Say something once to people: on stderr, and as an event of the trial."""
        self._once(name, text, f"Warning: {text}", data)

    def tell(self, name: str, text: str, **data: Any) -> None:
        """The same for what is as it should be."""
        self._once(name, text, f"this trial {text}", data)

    def _once(self, name: str, text: str, said: str, data: dict[str, Any]) -> None:
        if not self.chief:
            return
        self.say(said)
        if self.reporter is not None:
            self.reporter.event(
                Event(
                    subject=self.trial,
                    experiment=self.experiment,
                    name=name,
                    text=text,
                    at=self.clock.now(),
                    data=data,
                )
            )

    def say(self, text: str) -> None:
        if self.chief:
            print(text, file=sys.stderr, flush=True)

    def goes_on_at(self, batches: int) -> None:
        """Note that this attempt was restored, and that it trains again what lies beyond."""
        self.progress.base = batches
        if self.reporter is not None:
            self.reporter.chunks.base = batches

    def settle(self) -> None:
        """On rank 0: return once all reports are durable.

        Raises:
            Unreachable: if they are not in time.
        """
        if self.reporter is not None and not self.reporter.flush(self.grace):
            raise Unreachable("the store does not take the metrics that came before it")

    def flush(self, timeout: float) -> bool:
        """Make all reports durable; the same answer on every rank. Collective."""
        mine = self.reporter is None or self.reporter.flush(timeout)
        return bool(self.distributed.broadcast(mine))

    def close(self) -> None:
        """Send what is left and let go of everything.

        Raises:
            Unreachable: the last metrics could not be stored.
        """
        if self.engine is not None:
            self.engine.close()
        self.agreement.close()
        if self.reporter is not None:
            self.reporter.close(self.grace)
        if self.store is not None:
            self.store.close()
