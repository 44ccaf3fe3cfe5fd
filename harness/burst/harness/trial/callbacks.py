"""Hooks into the loop."""

from __future__ import annotations

from typing import Any


class PyTorchCallback:
    """Subclass it and return instances from `PyTorchTrial.build_callbacks`.

    Every rank has its own instances. What a callback remembers belongs in `state_dict`, so that it
    is saved and restored with the trial; rank 0's is kept.
    """

    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        """Once, when training is about to start or to continue from a checkpoint."""

    def on_trial_shutdown(self) -> None:
        """Once, when the trial leaves this process, for whatever reason."""

    def on_training_start(self) -> None:
        """After the state was restored, before the first batch."""

    def on_training_epoch_start(self, epoch_idx: int) -> None:
        """Before the first batch of an epoch; not again when the trial resumes inside it."""

    def on_training_epoch_end(self, epoch_idx: int) -> None:
        """After the last batch of an epoch and its learning-rate step."""

    def on_training_workload_end(
        self, avg_metrics: dict[str, Any], batch_metrics: list[dict[str, Any]]
    ) -> None:
        """When training metrics are reported: their averages over all ranks, and this rank's
        metrics of each batch since the last report."""

    def on_validation_start(self) -> None: ...

    def on_validation_epoch_start(self) -> None: ...

    def on_validation_epoch_end(self, outputs: list[Any]) -> None:
        """After the last validation batch, with what `evaluate_batch` returned, on this rank."""

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        """With the metrics over all ranks."""

    def on_checkpoint_load_start(self, checkpoint: dict[str, Any]) -> None:
        """Before the trial takes on a restored state; may change it."""

    def on_checkpoint_save_start(self, checkpoint: dict[str, Any]) -> None:
        """Before a state is saved; may add to it."""

    def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
        """After a state was handed over. `checkpoint_dir` is empty: there is no folder, the state
        goes straight to where checkpoints are kept."""

    def on_checkpoint_upload_end(self, uuid: str) -> None:
        """After a checkpoint became durable, with its id."""

    def state_dict(self) -> dict[str, Any]:
        """What to save: dicts, lists, numbers, strings, tensors and arrays."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take on what `state_dict` gave."""


def overrides(callback: PyTorchCallback, hook: str) -> bool:
    """Whether a callback has a hook of its own."""
    return getattr(type(callback), hook) is not getattr(PyTorchCallback, hook)
