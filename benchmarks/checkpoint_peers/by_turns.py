"""tiny_gpt, trained with checkpoints and without by turns: an experiment's code, to be put beside
the `train.py` of the example."""

from __future__ import annotations

import importlib
import json
import os
import time
from pathlib import Path
from typing import Any

from burst.harness import PyTorchCallback, PyTorchTrialContext

TURN_S = 5.0
SETTLE_S = 1.0
"""At the beginning of a turn, for what the one before has left to do; it does not count."""


class Turns(PyTorchCallback):
    """Takes the engine away from the trial and gives it back; counts batches meanwhile."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self._context = context
        self._engine = context.session.engine
        self._saving = True
        self._since = time.perf_counter()
        self._counted: tuple[float, int] | None = None
        self._saves = 0
        self._turns: list[dict[str, float]] = []

    def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
        now, batch = time.perf_counter(), self._context.batch
        if self._counted is None and now - self._since >= SETTLE_S:
            self._counted, self._saves = (now, batch), 0
        elif self._counted is not None and now - self._since >= TURN_S:
            begun, first = self._counted
            rate = (batch - first) / (now - begun)
            self._turns.append({"saving": self._saving, "rate": rate, "saves": self._saves})
            self._give(not self._saving)
            self._since, self._counted = now, None

    def on_checkpoint_save_start(self, checkpoint: dict[str, Any]) -> None:
        self._saves += 1

    def on_validation_start(self) -> None:
        """Of the one validation, at the end: the last state is saved whosever turn it is."""
        self._give(True)

    def on_trial_shutdown(self) -> None:
        # The first two are warm-up, and the last has no end.
        Path(os.environ["TURNS"]).write_text(json.dumps(self._turns[2:]))

    def _give(self, saving: bool) -> None:
        self._saving = saving
        self._context.session.engine = self._engine if saving else None


ByTurns = type(
    "ByTurns",
    (importlib.import_module("train").TinyGptTrial,),
    {"build_callbacks": lambda self: {"turns": Turns(self.context)}},
)
