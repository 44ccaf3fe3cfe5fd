"""This process's connection to its experiment, made when a Trainer first trains or evaluates."""

from __future__ import annotations

from dataclasses import dataclass, field

from burst.core.config.experiment import ExperimentConfig
from burst.core.launch import LaunchSpec, read_launch
from burst.core.length import Length, Unit
from burst.harness import determinism
from burst.harness.distributed import Place
from burst.harness.process import Terminated
from burst.harness.rank import others_failed
from burst.harness.session import Session
from burst.harness.settings import needs_metric
from burst.harness.transformers.ending import Ending
from burst.harness.transformers.lengths import length_in
from burst.harness.trial.goal import Goal
from burst.harness.trial.run import connect

_TRAININGS = "trainings"


@dataclass
class Connection:
    """What a rank's trainings share."""

    spec: LaunchSpec
    config: ExperimentConfig
    session: Session
    ending: Ending
    steps: int = 0
    """Steps of the trainings that are over in this process."""
    _place: Place = field(default_factory=Place.from_environment)

    @property
    def goal(self) -> Goal:
        searcher = self.config.searcher
        return Goal(
            metric=searcher.metric,
            smaller_is_better=searcher.smaller_is_better,
            policy=self.config.checkpoints.policy,
            needed=needs_metric(self.config),
        )

    @property
    def length(self) -> Length | None:
        """How long the experiment has each trial train; None leaves it to the script."""
        return length_in(self.config)

    @property
    def seconds(self) -> float | None:
        """The same, where it is a time."""
        length = self.length
        return length.amount if length is not None and length.unit is Unit.SECONDS else None

    def next_training(self) -> int:
        """Which training of this attempt begins now, counted from 0: a script may train several
        times, and a command may run several scripts, one after the other."""
        path = self.spec.path / _TRAININGS / f"rank{self._place.rank}"
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            before = file.tell()
            file.write(b".")
        return before


_made: Connection | None = None


def connection() -> Connection | None:
    """The connection of this process; None outside an experiment. Collective at its first call."""
    global _made
    spec = read_launch()
    if spec is None:
        return None
    if _made is None:
        _made = _connect(spec)
    return _made


def _connect(spec: LaunchSpec) -> Connection:
    config = ExperimentConfig.model_validate(spec.config)
    place = Place.from_environment()
    if config.reproducibility.mode == "strict":
        determinism.prepare("strict", None)
    terminated = Terminated(lambda: others_failed(spec, place.rank))
    session = connect(spec, config, lambda: terminated.asked)
    ending = Ending(session, spec)
    ending.install()
    return Connection(spec, config, session, ending)
