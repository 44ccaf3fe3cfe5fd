"""Where submissions of the same thing meet, so that one experiment comes of them.

A submission reads the record at which all of its kind meet, looks whether there is an experiment
already, and if not writes that record, under the version it has read, in one commit with its own
experiment. So of two at the same moment one is refused and looks again, and a submitter that dies
at any point has written both or nothing.
"""

from __future__ import annotations

import hashlib
import json
from typing import Protocol

from burst.core.model import Experiment, Key, Lease
from burst.core.states import ExperimentState
from burst.core.store.port import Put, Store


class Meeting(Protocol):
    """What makes two submissions the same."""

    def look(self, store: Store) -> Experiment | None:
        """Read anew; the experiment that is there already, if one is."""
        ...

    def claim(self, experiment: Experiment) -> Put:
        """What to commit with `experiment`, after a `look` that found none."""
        ...


class Alike:
    """The same settings, code and owner, while such an experiment is live.

    Args:
        experiment: one that would be written.
        seed_drawn: whether nobody chose its seed, so that another one makes no difference.
        new: never find any.
    """

    def __init__(self, experiment: Experiment, seed_drawn: bool, new: bool) -> None:
        self._seed_drawn = seed_drawn
        self._likeness = likeness(experiment, seed_drawn)
        self._new = new
        digest = hashlib.sha256(self._likeness.encode()).hexdigest()
        self._guard = Lease(id=f"submit:{digest[:32]}")

    def look(self, store: Store) -> Experiment | None:
        self._guard = store.find(Lease, self._guard.id) or self._guard
        return None if self._new else self._found(store)

    def claim(self, experiment: Experiment) -> Put:
        return Put(self._guard)

    def _found(self, store: Store) -> Experiment | None:
        """The newest live one that is the same."""
        for found in reversed(store.live(Experiment)):
            alike = likeness(found, self._seed_drawn) == self._likeness
            if alike and found.state is not ExperimentState.STOPPING:
                return found
        return None


class Keyed:
    """The same key, whatever is submitted, live or completed.

    One that failed or was cancelled, or is about to be, counts no longer: who submits again under
    its key wants another attempt.

    Args:
        new: never find any; what is written counts from then on.
    """

    def __init__(self, name: str, new: bool) -> None:
        self._key = Key(id=Key.id_of(name))
        self._new = new

    def look(self, store: Store) -> Experiment | None:
        self._key = store.find(Key, self._key.id) or self._key
        if self._new or not self._key.experiment:
            return None
        found = store.find(Experiment, self._key.experiment)
        return found if found is not None and counts(found) else None

    def claim(self, experiment: Experiment) -> Put:
        return Put(self._key.model_copy(update={"experiment": experiment.id}))


def counts(experiment: Experiment) -> bool:
    """Whether submitting under its key again gives this one, and not another attempt."""
    ended_badly = (ExperimentState.FAILED, ExperimentState.CANCELLED)
    if experiment.state is ExperimentState.STOPPING:
        return experiment.ending == "completed"
    return experiment.state not in ended_badly


def likeness(experiment: Experiment, seed_drawn: bool) -> str:
    """What two submissions of the same thing share. A seed that nobody chose does not count: it
    was drawn when the file was read."""
    settings = dict(experiment.config)
    if seed_drawn:
        settings["reproducibility"] = {**settings["reproducibility"], "experiment_seed": None}
    return json.dumps((experiment.owner, experiment.code.digest, settings), sort_keys=True)
