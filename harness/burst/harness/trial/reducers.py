"""How the metrics of many batches and ranks become one number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from burst.harness.distributed import DistributedContext
from burst.harness.values import to_floats


class Reducer(Enum):
    """How `evaluate_batch`'s metrics are combined. AVG weighs each batch by its records, so that a
    short last batch or another number of ranks does not shift it."""

    AVG = "avg"
    SUM = "sum"
    MAX = "max"
    MIN = "min"


class MetricReducer:
    """A metric that is not an average of batches: AUC, F1, a confusion matrix.

    Feed it from `train_batch` or `evaluate_batch` in any way you like; the loop calls `reset`
    before, `per_slot_reduce` on every rank after, and `cross_slot_reduce` with all their results.
    What it has gathered is part of the trial's state, so its attributes must be what a checkpoint
    can hold (numbers, strings, lists, dicts, tensors, arrays), or it overrides `state_dict` and
    `load_state_dict`.
    """

    def reset(self) -> None:
        """Forget what was gathered."""
        raise NotImplementedError

    def per_slot_reduce(self) -> Any:
        """What this rank gathered, as something JSON can hold."""
        raise NotImplementedError

    def cross_slot_reduce(self, per_slot_metrics: list[Any]) -> Any:
        """The metric, or a dict of metrics, from what each rank's `per_slot_reduce` gave."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)


class FunctionReducer(MetricReducer):
    """Gathers values and gives them, of all ranks in order, to a function."""

    def __init__(self, function: Callable[[list[Any]], Any]) -> None:
        self._function = function
        self._values: list[Any] = []

    def update(self, value: Any) -> None:
        self._values.append(value)

    def reset(self) -> None:
        self._values = []

    def per_slot_reduce(self) -> Any:
        return [_jsonable(value) for value in self._values]

    def cross_slot_reduce(self, per_slot_metrics: list[Any]) -> Any:
        return self._function([value for values in per_slot_metrics for value in values])

    def state_dict(self) -> dict[str, Any]:
        return {"values": list(self._values)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._values = list(state_dict["values"])


class WrappedReducer:
    """A reducer, the name of its metric, and where it takes part."""

    def __init__(
        self, reducer: MetricReducer, name: str | None, for_training: bool, for_validation: bool
    ) -> None:
        self.reducer = reducer
        self.name = name
        self.for_training = for_training
        self.for_validation = for_validation

    def collect(self, distributed: DistributedContext) -> dict[str, float]:
        """The metrics over all ranks; collective."""
        values = distributed.allgather(_jsonable(self.reducer.per_slot_reduce()))
        result = self.reducer.cross_slot_reduce(values)
        if isinstance(result, dict):
            return to_floats(result)
        return to_floats({self.name or type(self.reducer).__name__: result})


def combine(reducer: Reducer, values: Sequence[float], weights: Sequence[float]) -> float:
    """One number from the batches' values, each weighing its number of records."""
    if reducer is Reducer.AVG:
        return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)
    if reducer is Reducer.SUM:
        return sum(values)
    nan = next((v for v in values if v != v), None)
    if nan is not None:
        return nan
    return max(values) if reducer is Reducer.MAX else min(values)


def _jsonable(value: Any) -> Any:
    tolist = getattr(value, "tolist", None)
    if tolist is not None:
        return tolist()
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    return value
