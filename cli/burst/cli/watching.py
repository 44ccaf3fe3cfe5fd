"""Watching an experiment until nothing more will happen by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from burst.cli.driver import Driver
from burst.cli.following import Follower, settled
from burst.cli.presenting import Presenter
from burst.cli.reading import Picture
from burst.cli.session import Session
from burst.cli.tailing import Tail
from burst.core.store import is_local

LOOK_EVERY_S = 0.25
LOOK_REMOTE_EVERY_S = 2.0
"""The same, where each look is paid for."""


class TimedOut(Exception):
    """The time that the caller gave was over first."""


def watch(
    session: Session,
    follower: Follower,
    presenter: Presenter,
    *,
    until: Callable[[Picture], bool] = settled,
    driver: Driver | None = None,
    tail: Tail | None = None,
    seconds: float | None = None,
) -> Picture:
    """Look again and again until `until` holds; returns the last picture.

    Raises:
        TimedOut: `seconds` have passed.
        BurstError: the driver, or the store, failed.
    """
    clock = session.clock
    every = LOOK_EVERY_S if is_local(session.store) else LOOK_REMOTE_EVERY_S
    end = None if seconds is None else clock.monotonic() + seconds
    with presenter:
        while True:
            happened = follower.look(clock.now())
            picture = follower.picture
            if picture is None:
                raise AssertionError("a look always leaves a picture")
            over = until(picture)
            if tail is not None:
                presenter.log(tail.read(picture.trials, unfinished=over), tail)
            presenter.show(picture, happened)
            if over:  # what was committed between the reading of the events and of the picture
                presenter.show(picture, follower.look(clock.now()))
                return picture
            if driver is not None and driver.error is not None:
                raise driver.error
            if end is not None and clock.monotonic() >= end:
                raise TimedOut
            clock.sleep(every)


def follow_until(session: Session, follower: Follower, every: float) -> Iterator[Picture]:
    """The experiment again and again, `every` seconds, for as long as the caller wants it."""
    while True:
        follower.look(session.clock.now())
        if follower.picture is not None:
            yield follower.picture
        session.clock.sleep(every)
