"""Why a Trainer's training ended before its length."""

from __future__ import annotations

from typing import Any


def why_early(trainer: Any) -> str | None:
    """Why a callback ended the training early, for the reason of the trial; None where it came to
    its length, or ran out of data."""
    state, control = trainer.state, trainer.control
    if not control.should_training_stop or state.global_step >= state.max_steps:
        return None
    for callback in trainer.callback_handler.callbacks:
        patience = getattr(callback, "early_stopping_patience", None)
        waited = getattr(callback, "early_stopping_patience_counter", None)
        if patience is not None and waited is not None and waited >= patience:
            metric = _metric(trainer.args)
            times = f"{waited} evaluations" if waited != 1 else "an evaluation"
            return f"{type(callback).__name__}: {metric} has not improved in {times}"
    return f"a callback ended training at step {state.global_step} of {state.max_steps}"


def _metric(args: Any) -> str:
    name = str(args.metric_for_best_model or "the metric")
    return name if name.startswith(("eval_", "the ")) else f"eval_{name}"
