"""This process's connection to its experiment, made when a Trainer first trains or evaluates."""

from __future__ import annotations

import fcntl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Literal

from burst.core.config.experiment import ExperimentConfig, WarmStart
from burst.core.launch import LaunchSpec, read_launch
from burst.core.length import Length, Unit
from burst.harness import determinism
from burst.harness.agreement import Wish
from burst.harness.connect import folder_link, meet, open_engine, open_session
from burst.harness.distributed import Place
from burst.harness.keeping import KEEP
from burst.harness.process import Terminated
from burst.harness.rank import others_failed
from burst.harness.session import Session
from burst.harness.settings import needs_metric
from burst.harness.transformers.script.ending import Ending
from burst.harness.transformers.trainer.lengths import length_in
from burst.harness.trial.goal import Goal
from burst.harness.trial.run import connect

_TRAININGS = "trainings"


@dataclass(frozen=True)
class Terms:
    """What an experiment asks of a training; the defaults are a script's on its own."""

    goal: Goal = field(default_factory=lambda: Goal(metric="eval_loss"))
    length: Length | None = None
    """How long to train; None leaves it to the script."""
    every: Length | Literal["auto"] | None = "auto"
    """How often to checkpoint, beside the Trainer's own save points."""
    start: WarmStart | None = None
    mode: determinism.Mode = "off"

    @property
    def seconds(self) -> float | None:
        """The length, where it is a time."""
        timed = self.length is not None and self.length.unit is Unit.SECONDS
        return self.length.amount if self.length is not None and timed else None

    @classmethod
    def of(cls, config: ExperimentConfig) -> Terms:
        searcher = config.searcher
        goal = Goal(
            metric=searcher.metric,
            smaller_is_better=searcher.smaller_is_better,
            policy=config.checkpoints.policy,
            needed=needs_metric(config),
        )
        return cls(
            goal=goal,
            length=length_in(config),
            every=config.checkpoints.every,
            start=config.start,
            mode=config.reproducibility.mode,
        )


@dataclass
class Connection:
    """What a rank's trainings share."""

    session: Session
    ending: Ending
    terms: Terms
    folder: Path | None = None
    """The launch's, where there is one."""
    steps: int = 0
    """Steps of the trainings that are over in this process."""
    _trainings: int = 0
    _place: Place = field(default_factory=Place.from_environment)

    def next_training(self) -> int:
        """Which training of this attempt begins now, counted from 0: a script may train several
        times, and a command may run several scripts, one after the other."""
        if self.folder is None:
            self._trainings += 1
            return self._trainings - 1
        path = self.folder / _TRAININGS / f"rank{self._place.rank}"
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            before = file.tell()
            file.write(b".")
        return before

    def leave_if_asked(self, *, durable: bool) -> None:
        """Between trainings, or in one that is not kept. Collective.

        Args:
            durable: whether nothing is lost by it.

        Raises:
            SystemExit: it was asked to leave.
        """
        if self.session.reporter is not None:
            self.session.reporter.check()
        wish = Wish.DRAIN if self.session.asked() else Wish.NOTHING
        if self.session.agreement.poll(int(wish)) & Wish.DRAIN:
            self.ending.drained(durable)
            self.ending.leave()


_made: Connection | None = None
_held: list[IO[bytes]] = []
"""The file that this process holds as the one that is attached; it goes with the process."""
_alone = False
"""Whether another process of this rank is attached."""


def connection(folder: str | Path | None = None) -> Connection | None:
    """The connection of this process: to its experiment, or else to a folder; None without
    either. Collective at its first call."""
    global _made, _alone
    if _made is None and not _alone:
        spec = read_launch()
        if spec is not None:
            _alone = not _hold(spec.path)
            _made = None if _alone else _to_experiment(spec)
        elif folder is not None:
            _made = _to_folder(Path(folder))
    return _made


def _hold(folder: Path) -> bool:
    """Be the process that speaks for its rank, for as long as it lives; False if there is one.

    A script may start another Python that evaluates while it trains itself. Two of them would
    report into each other's series, and the first to end would say that training has.
    """
    rank = Place.from_environment().rank
    file = (folder / f"attached.rank{rank}").open("wb")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        said = "burst: the program that started this one is attached; a Trainer here runs alone"
        print(said, file=sys.stderr, flush=True)
        return False
    _held.append(file)
    return True


def _to_experiment(spec: LaunchSpec) -> Connection:
    config = ExperimentConfig.model_validate(spec.config)
    place = Place.from_environment()
    if config.reproducibility.mode == "strict":
        determinism.prepare("strict", None)
    session = connect(spec, config, _terminated(lambda: others_failed(spec, place.rank)))
    return _installed(Connection(session, Ending(session, spec), Terms.of(config), spec.path))


def _to_folder(folder: Path) -> Connection:
    gang = meet("cpu")
    link = replace(folder_link(folder, gang), keep=KEEP)
    session = open_session(link, gang, asked=_terminated(lambda: False))
    session.engine = open_engine(link, session)
    return _installed(Connection(session, Ending(session, None), Terms()))


def _terminated(hopeless: Callable[[], bool]) -> Callable[[], bool]:
    """Whether SIGTERM has come. A script that trains in a thread keeps its own way with signals,
    which only the main thread may set: it hears of a stop by the launch's flag alone."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: False
    terminated = Terminated(hopeless)
    return lambda: terminated.asked


def _installed(made: Connection) -> Connection:
    made.ending.install()
    return made
