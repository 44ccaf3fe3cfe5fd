"""What a search by successive halving counts a trial's training in, and up to where."""

from __future__ import annotations

from dataclasses import dataclass

from burst.core.config.experiment import AdaptiveAshaSearcher, AshaSearcher, ExperimentConfig
from burst.core.errors import ConfigError
from burst.core.length import Unit
from burst.core.units import format_duration

HalvingSearcher = AshaSearcher | AdaptiveAshaSearcher
_ONE = {Unit.BATCHES: "batch", Unit.RECORDS: "record", Unit.EPOCHS: "epoch"}


@dataclass(frozen=True)
class Ladder:
    """The scale that rungs are marks on."""

    top: float
    """The longest that a trial trains, in `unit`."""
    unit: Unit | str
    """Where it is not a unit: the name of the metric that counts time."""

    def words(self, amount: float) -> str:
        """An amount of it as people say it: `5 epochs`."""
        if self.unit is Unit.SECONDS:
            return format_duration(amount)
        if not isinstance(self.unit, Unit):
            return f"{self.unit} {amount:g}"
        number = f"{int(amount):,}" if amount == int(amount) else f"{amount:g}"
        return f"{number} {_ONE[self.unit] if amount == 1 else self.unit.value}"


def ladder_of(config: ExperimentConfig) -> Ladder | None:
    """The ladder of a search that halves; None of any other.

    Raises:
        ConfigError: the file does not say how long a trial trains.
    """
    searcher = config.searcher
    if not isinstance(searcher, HalvingSearcher):
        return None
    if searcher.max_length is not None:
        return Ladder(searcher.max_length.amount, searcher.max_length.unit)
    if searcher.max_time is None:
        raise ConfigError(
            f"the searcher {searcher.name!r} has to know how long to train",
            mend="add max_length to `searcher`, for example `max_length: 10ep`",
        )
    metric = searcher.time_metric or Unit.BATCHES.value
    return Ladder(float(searcher.max_time), Unit(metric) if metric in tuple(Unit) else metric)
