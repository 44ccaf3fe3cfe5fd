"""Following an experiment: what happened since the last look, as data, a line or JSON.

Changes of state come from the store's log of events, so none is missed however short it was;
validations come from the metric rows; what waits, and why, from the trials themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from burst.cli import reading
from burst.cli.encoding import event_json, metric_row_json, reason_json
from burst.cli.reading import Picture
from burst.core.metrics import VALIDATED, merge
from burst.core.model import Event, Experiment, Trial
from burst.core.states import ExperimentState, TrialState, is_terminal
from burst.core.store.port import Store

_TOLD = ("experiment.", "trial.", "checkpoint.")
_UNTOLD = ("checkpoint.deleted", VALIDATED)
"""What a person is told of, by the beginning of an event's name; JSON has all of them."""


_PAGE = 1000
BUSY = (TrialState.RUNNING, TrialState.STOPPING)
"""States of a trial that may hold slots. In a paused experiment waiting ones are held."""


def is_for_people(event: str) -> bool:
    """Whether a person is told of an event of this name."""
    return event.startswith(_TOLD) and event not in _UNTOLD


@dataclass(frozen=True)
class Happening:
    """One thing that happened."""

    type: str
    """`event`, `validation` or `wait`."""
    at: float
    subject: str
    name: str
    """`trial.running`, `validation`, …"""
    text: str
    data: Mapping[str, Any]
    """What `--json` prints of it."""

    @property
    def for_people(self) -> bool:
        return self.type != "event" or is_for_people(self.name)


@dataclass
class Follower:
    """Looks at one experiment again and again; each look costs what is live.

    Args:
        cursor: events after it are told; empty tells the whole story so far.
    """

    store: Store
    experiment: str
    cursor: str = ""
    picture: Picture | None = None
    _validations: dict[str, int] = field(default_factory=dict)
    _waits: dict[str, str] = field(default_factory=dict)

    def look(self, now: float) -> list[Happening]:
        """Read what changed; returns what happened since the last look, oldest first. After one
        that failed the next tells what it would have told."""
        told = self.cursor, self.picture, dict(self._validations), dict(self._waits)
        try:
            return self._look(now)
        except BaseException:
            self.cursor, self.picture, self._validations, self._waits = told
            raise

    def _look(self, now: float) -> list[Happening]:
        attaching = self.picture is None and bool(self.cursor)
        happened = [_event(event) for event in self._events()]
        if self.picture is None:
            self.picture = reading.picture(self.store, self.experiment, now)
        else:
            self.picture = reading.refresh(self.store, self.picture, now)
        if attaching:
            self._validations = {t.id: t.validations for t in self.picture.trials}
        for trial in self.picture.trials:
            happened += self._validated(trial)
            happened += self._waiting(trial, now)
        return sorted(happened, key=lambda one: one.at)

    def _events(self) -> Iterator[Event]:
        while True:
            page = self.store.events(self.cursor, limit=_PAGE, experiment=self.experiment)
            self.cursor = page.cursor
            yield from page.events
            if len(page.events) < _PAGE:
                return

    def _validated(self, trial: Trial) -> list[Happening]:
        told = self._validations.get(trial.id, 0)
        if trial.validations <= told:
            return []
        merged = merge(self.store.metrics(trial.id, "validation"))
        rows = merged.get("validation", [])
        # A trial that went back to a checkpoint validates the same batches again: those rows are
        # merged into one, so count from the end.
        fresh = rows[max(0, len(rows) - (trial.validations - told)) :]
        self._validations[trial.id] = trial.validations
        return [
            Happening(
                "validation",
                row.at,
                trial.id,
                "validation",
                "",
                {
                    "type": "validation",
                    "trial": trial.id,
                    **metric_row_json("validation", row),
                },
            )
            for row in fresh
        ]

    def _waiting(self, trial: Trial, now: float) -> list[Happening]:
        if trial.state is not TrialState.WAITING or trial.wait is None:
            self._waits.pop(trial.id, None)
            return []
        if self._waits.get(trial.id) == trial.wait.text:
            return []
        self._waits[trial.id] = trial.wait.text
        data = {
            "type": "wait",
            "trial": trial.id,
            "reason": reason_json(trial.wait),
            "until": trial.wait_until,
        }
        return [Happening("wait", now, trial.id, "wait", str(trial.wait), data)]


def settled(picture: Picture) -> bool:
    """Whether nothing more will happen by itself: over, or paused with every slot given back. So
    is one whose trials were paused one by one, if its search has nothing to add."""
    if picture.over:
        return True
    live = [trial for trial in picture.trials if not is_terminal(trial.state)]
    if picture.experiment.state is ExperimentState.PAUSED:
        return not any(trial.state in BUSY for trial in live)
    idle = picture.experiment.state is ExperimentState.ACTIVE and bool(live)
    return idle and all(map(_held, live)) and not picture.experiment.search.get("inbox")


def trial_settled(picture: Picture, trial: str) -> bool:
    """The same of one trial. It stays where it is while its experiment is paused, too."""
    found = next((t for t in picture.trials if t.id == trial), None)
    if found is None:
        return False
    paused = picture.experiment.state is ExperimentState.PAUSED and found.state not in BUSY
    return is_terminal(found.state) or _held(found) or paused


def _held(trial: Trial) -> bool:
    waits = trial.state is TrialState.WAITING and trial.wanted is TrialState.PAUSED
    return waits or trial.state is TrialState.PAUSED


def succeeded(record: Experiment | Trial) -> bool:
    return is_terminal(record.state) and str(record.state) in ("completed", "stopped")


def _event(event: Event) -> Happening:
    return Happening("event", event.at, event.subject, event.name, event.text,
                     {"type": "event", **event_json(event)})  # fmt: skip
