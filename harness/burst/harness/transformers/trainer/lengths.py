"""The length of an experiment, as a Trainer's arguments."""

from __future__ import annotations

import math
from typing import Any

from burst.core.config.experiment import ExperimentConfig
from burst.core.length import Length, Unit
from burst.harness.session import Session
from burst.harness.settings import max_length


def length_in(config: ExperimentConfig) -> Length | None:
    """How long the experiment says that each trial trains; None where it leaves that to the
    script."""
    searcher = config.searcher
    if searcher.max_length is None and getattr(searcher, "max_time", None) is None:
        return None
    return max_length(config)


def set_length(trainer: Any, length: Length | None, session: Session) -> None:
    """Have a Trainer train as long as the experiment says, and say so where its script says
    otherwise. A length in time is for the clock to see to."""
    args = trainer.args
    if length is None or length.unit is Unit.SECONDS:
        return
    epochs, steps = float(args.num_train_epochs), int(args.max_steps)
    if length.unit is Unit.EPOCHS:
        changed = float(length.amount), -1
    elif length.unit is Unit.BATCHES:
        changed = epochs, int(length.amount)
    else:
        batch = int(trainer.get_total_train_batch_size(args))
        changed = epochs, math.ceil(length.amount / batch)
    if changed == (epochs, steps):
        return
    args.num_train_epochs, args.max_steps = changed
    script = f"{steps} steps" if steps > 0 else f"{epochs:g} epochs"
    session.say(f"burst: trains for {length}, as the experiment says, not for {script}")
