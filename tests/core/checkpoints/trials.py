"""Trials for checkpoints to belong to."""

from __future__ import annotations

from burst.core.ids import trial_id
from burst.core.model import Trial
from burst.core.store.port import Put, Store


def add_trial(store: Store, experiment: str, number: int) -> str:
    """A trial that waits, with its first token; returns its id."""
    id = trial_id(experiment, number)
    trial = Trial(
        id=id,
        experiment=experiment,
        number=number,
        seed=1,
        slots=1,
        pools=("local",),
        created=0,
        queued=0,
        token=1,
        state_since=0,
    )
    store.commit(Put(trial))
    return id
