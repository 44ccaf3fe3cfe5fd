"""What an experiment's record keeps of its search: `Experiment.search`, read and written whole.

Events wait here until the searcher has taken them in. They come in the commit of what they tell of
(a trial that closed, validations that leave its record), so none is missed and none counts twice.
An event whose actions do not fit into one commit is worked off in several: the searcher is pure,
so asking it again gives the same actions, and `made` says how many of them are done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from burst.core.model import Experiment, Json, Trial
from burst.runner.search.port import Closed, SearchEvent, Started, Validated


class Entry(BaseModel):
    """A search event as it is stored."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    event: Literal["started", "validated", "closed"]
    request: str = ""
    how: str = ""
    number: int = 0
    length: float = 0.0
    metric: float = 0.0

    def to_event(self) -> SearchEvent:
        if self.event == "validated":
            return Validated(self.request, self.number, self.length, self.metric)
        return Closed(self.request, self.how) if self.event == "closed" else Started()


class Book(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    state: Mapping[str, Json] = {}
    """The searcher's own."""
    inbox: tuple[Entry, ...] = ()
    """Events that the searcher has not taken in, oldest first."""
    made: int = 0
    """Actions of the first event that are carried out."""
    closed: Mapping[str, int] = {}
    """Trials that are over, by how they ended."""
    shut: bool = False
    """Whether nothing more will be created."""
    failed: bool = False
    """Whether the searcher gave up."""

    @classmethod
    def of(cls, experiment: Experiment) -> Book:
        return cls.model_validate(dict(experiment.search))

    @classmethod
    def opened(cls) -> Book:
        """The book of an experiment that was just submitted."""
        return cls(inbox=(Entry(event="started"),))

    @staticmethod
    def heard(trial: Trial) -> Trial:
        """The trial once its validations are in the book."""
        return trial.model_copy(update={"untold": ()})

    @property
    def ended(self) -> int:
        return sum(self.closed.values())

    def close(self, request: str, how: str, *, tell: bool = True) -> Book:
        """With one trial more that is over, of which the searcher is told or not."""
        entry = Entry(event="closed", request=request, how=how)
        closed = {**self.closed, how: self.closed.get(how, 0) + 1}
        inbox = (*self.inbox, entry) if tell else self.inbox
        return self.model_copy(update={"inbox": inbox, "closed": closed})

    def hear(self, trial: Trial) -> Book:
        """With the validations that the trial has for the searcher. The trial's record without
        them (`heard`) belongs into the same commit, so that each is told once."""
        first = trial.judged - len(trial.untold) + 1
        entries = (
            Entry(
                event="validated",
                request=trial.request,
                number=number,
                length=each.length,
                metric=each.metric,
            )
            for number, each in enumerate(trial.untold, start=first)
        )
        return self.model_copy(update={"inbox": (*self.inbox, *entries)})

    def written(self) -> dict[str, Json]:
        return self.model_dump(mode="json")
