"""`BurstCallback`: what a Trainer tells burst. The launcher attaches it to every Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import transformers.trainer
from transformers import TrainerCallback

from burst.harness.arguments import folder_of
from burst.harness.transformers.patching import patch

if TYPE_CHECKING:
    from burst.harness.transformers.attached import Attached


class BurstCallback(TrainerCallback):
    """Reports what a Trainer logs, and has its training kept.

    No script has to name it: in an experiment every Trainer has one. One that does may give it a
    folder, for when the script runs by itself: metrics and checkpoints are then kept there, and
    the script started again goes on where it was.

        Trainer(…, callbacks=[BurstCallback(folder="state")])
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        """`folder` counts outside of an experiment only.

        Raises:
            UsageError: it is no path.
        """
        self.folder = folder_of(folder)
        self.attached: Attached | None = None
        patch(transformers.trainer)

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
