"""The searcher port: a pure state machine.

A searcher is made from the experiment's settings, is given its state (a JSON value, saved with
every event in the same commit) and one event, and answers with the next state and its actions. The
same settings, seed and events give the same actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from burst.core.model import Json

INVALID_HP = "invalid_hp"
MISCONFIGURED = "misconfigured"


@dataclass(frozen=True)
class Started:
    """The search begins; comes once, first."""


@dataclass(frozen=True)
class Validated:
    """A trial reported its `number`-th validation (from 1). NaN ranks worst."""

    request: str
    number: int
    length: float
    """How far the trial was, in what the search counts in (`burst.core.config.halving`)."""
    metric: float


@dataclass(frozen=True)
class Closed:
    """A trial is over: `completed`, `stopped`, `cancelled`, `failed`, `invalid_hp`, or
    `misconfigured`, where what failed is the experiment's file and any other trial would too."""

    request: str
    how: str


SearchEvent = Started | Validated | Closed


@dataclass(frozen=True)
class Create:
    request: str
    """The searcher's own name for the trial, unique in the search."""
    hparams: Mapping[str, Json]
    seed: int


@dataclass(frozen=True)
class StopTrial:
    """Drain the trial for good; it has had its share. Idempotent."""

    request: str
    why: str = "the searcher has seen enough of it"
    """In words, for people."""


@dataclass(frozen=True)
class Shutdown:
    """Nothing more will be created; the experiment ends when its trials have."""

    failed: bool = False


SearchAction = Create | StopTrial | Shutdown


class Searcher(Protocol):
    @property
    def wants_validations(self) -> bool:
        """Whether `Validated` events matter to it; if not, its trials note none of theirs."""
        ...

    def on_event(
        self, state: Mapping[str, Json], event: SearchEvent
    ) -> tuple[Mapping[str, Json], tuple[SearchAction, ...]]:
        """`state` is empty for `Started`. Must not fail on any metric or any order of events."""
        ...

    def progress(self, state: Mapping[str, Json]) -> float:
        """0 to 1."""
        ...
