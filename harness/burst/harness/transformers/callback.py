"""`BurstCallback`: what a Trainer tells burst. The launcher attaches it to every Trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

if TYPE_CHECKING:
    from burst.harness.transformers.attached import Attached


class BurstCallback(TrainerCallback):
    """Reports what a Trainer logs, and has its training kept.

    No script has to name it. One that does may: `Trainer(…, callbacks=[BurstCallback()])`.
    """

    def __init__(self) -> None:
        self.attached: Attached | None = None

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        attached = self.attached
        if attached is not None and logs and not attached.evaluating:
            attached.reports.log(int(state.global_step), logs)

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
        if self.attached is not None and self.attached.training is not None:
            self.attached.training.at_prediction()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.attached is not None and self.attached.training is not None:
            self.attached.training.epoch_ends()
