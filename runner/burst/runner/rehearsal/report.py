"""What a rehearsal came to: losses and how they were made good, what it would have cost, and
whether anything was left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burst.core.model import Allocation, Event, Experiment, Supply
from burst.core.store.port import Store
from burst.runner.rehearsal.control import Seen
from burst.runner.rehearsal.losing import Losing, Taken


@dataclass(frozen=True)
class Recovery:
    """What became of one loss. Seconds are from the moment that the cloud took the machine, or
    said that it would; None where it did not come to that."""

    trial: str
    instance: str
    notice: float | None
    """Seconds of warning; None is none at all."""
    asked: float | None
    """Until another machine was asked for; 0 where one was there already."""
    resumed: float | None
    """Until the trial trained again."""
    repeated: int
    """Batches that were trained twice."""


@dataclass(frozen=True)
class Report:
    recoveries: tuple[Recovery, ...]
    unmade: int
    """Losses that found nothing to take away before the end."""
    first_asked: float | None
    """Seconds from the submission until machines were asked for; None if none were."""
    refused: tuple[str, ...]
    """What the cloud would not give, by offer, with its own code."""
    machines: int
    seconds: float
    """Of all machines, for which they cost."""
    usd: float
    left: tuple[str, ...]
    """Machines that still run."""
    unexplained: tuple[str, ...]
    """What an audit cannot explain."""
    given_up: str = ""
    """Why no machine could come any more, so that the rehearsal ended before the training."""

    @property
    def clean(self) -> bool:
        return not self.left and not self.unexplained


def report_of(
    store: Store,
    pools: Sequence[str],
    losing: Losing,
    machines: Sequence[Seen],
    unexplained: Sequence[str],
    given_up: str = "",
) -> Report:
    """Gather it, once all is over. `pools` are those of the cloud."""
    requested = [event for event in _events(store) if event.name == "node.requested"]
    created = store.get(Experiment, losing.experiment).created
    recoveries = [_recovery(store, each, losing.most, requested) for each in losing.taken]
    return Report(
        recoveries=tuple(recoveries),
        unmade=len(losing.scenario.losses) - len(losing.taken),
        first_asked=requested[0].at - created if requested else None,
        refused=_refused(store, pools),
        machines=len(machines),
        seconds=sum(each.seconds for each in machines),
        usd=sum(each.usd for each in machines),
        left=tuple(each.id for each in machines if each.ended is None),
        unexplained=tuple(unexplained),
        given_up=given_up,
    )


def _recovery(
    store: Store,
    taken: Taken,
    most: Mapping[tuple[str, int], int],
    requested: Sequence[Event],
) -> Recovery:
    attempts = store.children(Allocation, taken.trial)
    later = [each for each in attempts if each.attempt > taken.attempt]
    after = next((each for each in later if each.started is not None), None)
    asked = [event.at for event in requested if event.at >= taken.at]
    if after is not None and after.started is not None:
        asked = [at for at in asked if at <= after.started] or [taken.at]
    trained = most.get((taken.trial, taken.attempt), taken.batches)
    restored = after.restored_batches if after is not None else trained
    return Recovery(
        trial=taken.trial,
        instance=taken.instance,
        notice=taken.loss.notice,
        asked=asked[0] - taken.at if asked else None,
        resumed=_since(after, taken),
        repeated=max(0, trained - restored),
    )


def _since(after: Allocation | None, taken: Taken) -> float | None:
    return after.started - taken.at if after is not None and after.started is not None else None


def _refused(store: Store, pools: Sequence[str]) -> tuple[str, ...]:
    books = [book for book in (store.find(Supply, name) for name in pools) if book is not None]
    return tuple(
        f"{offer}: {refusal.code}"
        for book in books
        for offer, refusal in sorted(book.refusals.items())
    )


def _events(store: Store) -> list[Event]:
    found: list[Event] = []
    cursor = ""
    while True:
        page = store.events(cursor)
        found += page.events
        if not page.events:
            return found
        cursor = page.cursor
