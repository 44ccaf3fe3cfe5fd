"""Searches whose trials do not depend on each other's results: single, grid and random.

They differ only in what the n-th trial is and how many there are. Trials are created in order, no
more than `concurrent` of them open at once; one that ends makes room for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from burst.core.model import Json
from burst.runner.search.port import (
    INVALID_HP,
    Closed,
    Create,
    SearchAction,
    SearchEvent,
    Shutdown,
    Started,
)
from burst.runner.search.seeds import trial_seed


class ListState(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    created: int = 0
    open: tuple[str, ...] = ()
    invalid: int = 0
    """Trials that refused their hyperparameters and were replaced."""
    shut: bool = False


@dataclass(frozen=True)
class ListedSearcher:
    """Creates trial 0, 1, 2, … of a list that is known beforehand."""

    propose: Callable[[int], Mapping[str, Json]]
    """The n-th trial's hyperparameters; pure."""
    count: int
    """How many valid trials there are to be."""
    concurrent: int
    """Most trials open at once; 0 is all."""
    seed: int
    replaceable: int = 0
    """How many trials with invalid hyperparameters are replaced by further ones at most."""
    wants_validations: bool = False

    def on_event(
        self, state: Mapping[str, Json], event: SearchEvent
    ) -> tuple[Mapping[str, Json], tuple[SearchAction, ...]]:
        """Events that do not fit (a second start, a trial closed twice) change nothing."""
        held = ListState.model_validate(state) if state else None
        if isinstance(event, Started):
            if held is not None:
                return state, ()
            return self._fill(ListState())
        if held is None or not isinstance(event, Closed) or event.request not in held.open:
            return state, ()
        still_open = tuple(name for name in held.open if name != event.request)
        replaced = event.how == INVALID_HP and held.invalid < self.replaceable
        return self._fill(
            held.model_copy(update={"open": still_open, "invalid": held.invalid + replaced})
        )

    def progress(self, state: Mapping[str, Json]) -> float:
        if not state:
            return 0.0
        held = ListState.model_validate(state)
        return min(1.0, (held.created - len(held.open) - held.invalid) / max(1, self.count))

    def _fill(self, state: ListState) -> tuple[Mapping[str, Json], tuple[SearchAction, ...]]:
        total = self.count + state.invalid
        room = total if self.concurrent == 0 else self.concurrent - len(state.open)
        stop = min(total, state.created + max(0, room))
        actions: list[SearchAction] = [self._create(n) for n in range(state.created, stop)]
        names = tuple(name_of(n) for n in range(state.created, stop))
        # The last trials may still turn out invalid, so the search is over only with them.
        done = stop == total and (not self.replaceable or not (state.open or names))
        if done and not state.shut:
            actions.append(Shutdown())
        after = ListState(
            created=stop,
            open=(*state.open, *names),
            invalid=state.invalid,
            shut=state.shut or done,
        )
        return after.model_dump(mode="json"), tuple(actions)

    def _create(self, number: int) -> Create:
        request = name_of(number)
        return Create(request, self.propose(number), trial_seed(self.seed, request))


def name_of(number: int) -> str:
    return f"r{number}"
