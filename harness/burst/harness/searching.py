"""What a trial tells the searcher that waits for its validations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burst.core.config.experiment import ExperimentConfig
from burst.core.config.halving import ladder_of
from burst.core.errors import ConfigError
from burst.core.length import Unit
from burst.core.model import Judged, Lengths, Trial

MOST_UNTOLD = 200
"""Validations that a trial's record holds at most, while no runner comes by."""


@dataclass(frozen=True)
class Search:
    """What of a validation the searcher looks at."""

    metric: str
    unit: Unit | str
    """What it counts a trial's length in; where it is no unit, a metric that counts time."""

    @classmethod
    def of(cls, config: ExperimentConfig) -> Search | None:
        """None where the searcher asks for no validations."""
        ladder = ladder_of(config)
        return None if ladder is None else cls(config.searcher.metric, ladder.unit)

    def judged(
        self, batches: int, metrics: Mapping[str, float], lengths: Lengths
    ) -> Judged | None:
        """A validation after so many batches; None where it lacks the metric.

        Raises:
            ConfigError: it is not known how far the trial is in what the search counts in.
        """
        if self.metric not in metrics:
            return None
        length = self._length(batches, metrics, lengths)
        return Judged(batches=batches, length=length, metric=metrics[self.metric])

    def _length(self, batches: int, metrics: Mapping[str, float], lengths: Lengths) -> float:
        if not isinstance(self.unit, Unit):
            if self.unit in metrics:
                return metrics[self.unit]
            raise ConfigError(
                f"no validation metric is called {self.unit!r}, which `searcher.time_metric` "
                f"names; there is {', '.join(sorted(metrics))}",
                mend="report it with every validation, or write `searcher.max_length`",
            )
        if self.unit is Unit.BATCHES:
            return float(batches)
        length = float(getattr(lengths, self.unit.value))
        if batches and not length:
            raise ConfigError(
                f"the search counts in {self.unit.value}, and this trial does not say how many "
                f"{batches} batches are",
                mend="write `searcher.max_length` in batches, or ask for the length with "
                "`context.max_batches(1000, epoch=len(loader), batch=32)`",
            )
        return length


def noted(trial: Trial, known: Sequence[Judged]) -> Trial:
    """The trial's record with those of `known` that are new to it. The same again changes nothing.

    What is new lies beyond all that was noted: an attempt that trains again from an older
    checkpoint tells nothing twice. Where the record is full, the newest takes the place of the
    last.
    """
    new, reached = [], trial.judged_to
    for each in known:
        if each.batches > reached:
            new.append(each)
            reached = each.batches
    if not new:
        return trial
    untold = (*trial.untold, *new)
    if len(untold) > MOST_UNTOLD:
        untold = (*untold[: MOST_UNTOLD - 1], untold[-1])
    return trial.model_copy(
        update={
            "untold": untold,
            "judged": trial.judged + len(new),
            "judged_to": reached,
        }
    )
