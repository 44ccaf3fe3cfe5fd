"""The contract between a trial's author and burst."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from burst.harness.errors import TrialError
from burst.harness.trial.callbacks import PyTorchCallback
from burst.harness.trial.reducers import Reducer

if TYPE_CHECKING:
    from burst.harness.data import DataLoader
    from burst.harness.trial.context import PyTorchTrialContext

ReducerSpec = Reducer | Callable[[list[Any]], Any]


class PyTorchTrial(ABC):
    """Subclass it: wrap models and optimizers with the context in `__init__`, build the loaders,
    train one batch and evaluate one batch. The loop, the metrics, the checkpoints and exact
    resuming are burst's.
    """

    @abstractmethod
    def __init__(self, context: PyTorchTrialContext) -> None: ...

    @abstractmethod
    def build_training_data_loader(self) -> DataLoader: ...

    @abstractmethod
    def build_validation_data_loader(self) -> DataLoader: ...

    @abstractmethod
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        """Train on one batch: forward, `context.backward`, `context.step_optimizer`.

        Args:
            batch: what the loader gave, on this rank's device.
            epoch_idx: counted from 0.
            batch_idx: counted from 0 over the whole training.

        Returns:
            the loss, or a dict of metrics: numbers and tensors of one element. They are averaged
            over batches and ranks until the next report.
        """

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        """The metrics of one validation batch, combined as `evaluation_reducer` says. Define this
        or `evaluate_full_dataset`."""
        raise NotImplementedError

    def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
        """The validation metrics, from all batches; on rank 0 only."""
        raise NotImplementedError

    def evaluation_reducer(self) -> ReducerSpec | Mapping[str, ReducerSpec]:
        """How metrics of `evaluate_batch` are combined: one way for all, or one by name. A
        function takes the list of the batches' values, in the order of the data."""
        return Reducer.AVG

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        return {}

    def get_batch_length(self, batch: Any) -> int:
        """Records in a batch; override it if the first tensor's first dimension does not tell."""
        return batch_length(batch)


def batch_length(batch: Any) -> int:
    """The length of the first sized leaf of a batch."""
    if isinstance(batch, Mapping):
        return batch_length(next(iter(batch.values()), ()))
    if isinstance(batch, list | tuple):
        return batch_length(batch[0]) if batch else 0
    return len(batch) if hasattr(batch, "__len__") else 1


def evaluates_batches(trial: type[PyTorchTrial]) -> bool:
    """Whether a trial class defines `evaluate_batch`, rather than `evaluate_full_dataset`.

    Raises:
        TrialError: if it defines neither or both, or is no trial class.
    """
    if not (isinstance(trial, type) and issubclass(trial, PyTorchTrial)):
        raise TrialError(
            f"{getattr(trial, '__name__', trial)!r} is not a PyTorchTrial",
            mend="let it derive from burst.harness.PyTorchTrial",
        )
    by_batch = trial.evaluate_batch is not PyTorchTrial.evaluate_batch
    in_full = trial.evaluate_full_dataset is not PyTorchTrial.evaluate_full_dataset
    if by_batch == in_full:
        raise TrialError(
            f"{trial.__name__} defines {'both' if by_batch else 'neither'} of evaluate_batch and "
            "evaluate_full_dataset",
            mend="define exactly one: evaluate_batch(batch, batch_idx) is shared out over all "
            "ranks, evaluate_full_dataset(data_loader) runs on rank 0 alone",
        )
    missing = sorted(getattr(trial, "__abstractmethods__", ()))
    if missing:
        raise TrialError(f"{trial.__name__} does not define {', '.join(missing)}")
    return by_batch
