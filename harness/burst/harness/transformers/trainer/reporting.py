"""What a Trainer tells burst, by the way of its callbacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

if TYPE_CHECKING:
    from burst.harness.transformers.trainer.attached import Attached


class Reporting(TrainerCallback):
    """Hands on what a Trainer logs, evaluates and comes to."""

    folder: Path | None = None
    """Where state is kept outside of an experiment; None keeps none."""

    def __init__(self) -> None:
        self.attached: Attached | None = None

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        attached = self.attached
        if attached is not None and logs and not attached.evaluating:
            attached.logged(logs)

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any
    ) -> None:
        if self.attached is not None and metrics:
            self.attached.evaluated(metrics)

    def on_predict(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any
    ) -> None:
        if self.attached is not None and metrics:
            self.attached.reports.predicted(int(state.global_step), metrics)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        attached = self.attached
        if attached is not None and attached.training is not None:
            attached.training.at_prediction()
        elif attached is not None:
            attached.leave_if_asked()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.attached is not None and self.attached.training is not None:
            self.attached.training.epoch_ends()
