"""What a launch and an experiment file say, as the harness needs it."""

from __future__ import annotations

from burst.core.config.experiment import AdaptiveAshaSearcher, AshaSearcher, ExperimentConfig
from burst.core.errors import ConfigError
from burst.core.launch import LaunchSpec
from burst.core.length import Length, Unit
from burst.harness.distributed import Place


def device_of(spec: LaunchSpec, place: Place) -> str:
    """A rank's device: `cpu` or `cuda:<index>`."""
    return spec.devices[place.local_rank] if place.local_rank < len(spec.devices) else "cpu"


def needs_metric(config: ExperimentConfig) -> bool:
    """Whether the searcher cannot do without its metric."""
    return isinstance(config.searcher, AshaSearcher | AdaptiveAshaSearcher)


def max_length(config: ExperimentConfig) -> Length:
    """How long the experiment trains each trial.

    Raises:
        ConfigError: if it does not say.
    """
    searcher = config.searcher
    if searcher.max_length is not None:
        return searcher.max_length
    if isinstance(searcher, AshaSearcher | AdaptiveAshaSearcher) and searcher.max_time is not None:
        epochs = (searcher.time_metric or "").startswith("epoch")
        unit = Unit.EPOCHS if epochs else Unit.BATCHES
        return Length(amount=searcher.max_time, unit=unit)
    raise ConfigError(
        "the experiment does not say how long a trial trains",
        mend="add max_length to `searcher`, for example `max_length: 10ep`",
    )
