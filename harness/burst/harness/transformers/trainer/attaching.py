"""Attaches burst to a Trainer, once it trains or evaluates."""

from __future__ import annotations

from typing import Any

from burst.harness.transformers.trainer.attached import NAME, Attached, attached_to
from burst.harness.transformers.trainer.connection import connection
from burst.harness.transformers.trainer.reporting import Reporting


def attach(trainer: Any) -> Attached | None:
    """What is attached to a Trainer, from now on; None outside an experiment, unless its callback
    names a folder. Collective at the first call of a process."""
    found = attached_to(trainer)
    if found is not None:
        return found
    callbacks = trainer.callback_handler.callbacks
    given = next((each for each in callbacks if isinstance(each, Reporting)), None)
    link = connection(None if given is None else given.folder)
    if link is None:
        return None
    found = Attached(trainer, link)
    setattr(trainer, NAME, found)
    callback = given or Reporting()
    if given is not None:
        callbacks.remove(given)
    callbacks.insert(0, callback)  # before those that take values out of what is logged
    callback.attached = found
    return found
