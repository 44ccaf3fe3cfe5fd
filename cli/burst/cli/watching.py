"""Watching an experiment until nothing more will happen by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType

from burst.cli.driver import Driver
from burst.cli.following import Follower, Happening, settled
from burst.cli.presenting import Presenter
from burst.cli.reading import Picture
from burst.cli.session import Session
from burst.cli.tailing import Tail
from burst.core.errors import Unauthorized, Unreachable
from burst.core.store import is_local

LOOK_EVERY_S = 0.25
LOOK_REMOTE_EVERY_S = 2.0
"""The same, where each look is paid for."""
PATIENCE_S = 300.0
"""For so long the store may be out of reach: what trains goes on meanwhile, and a job that watches
it is not to fail because of a network."""


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
        BurstError: the driver, or the store, failed; one elsewhere that did not answer for
            `PATIENCE_S`.
    """
    clock = session.clock
    every = LOOK_EVERY_S if is_local(session.store) else LOOK_REMOTE_EVERY_S
    patience = _Patience(session)
    end = None if seconds is None else clock.monotonic() + seconds
    with presenter:
        while True:
            happened: list[Happening] = []
            with patience:
                happened = follower.look(clock.now())
            picture = follower.picture
            if picture is not None:
                over = until(picture)
                if tail is not None:
                    with patience:
                        presenter.log(tail.read(picture.trials, unfinished=over), tail)
                presenter.show(picture, happened)
                if over:  # what was committed between the reading of events and picture
                    with patience:
                        presenter.show(picture, follower.look(clock.now()))
                    return picture
            if driver is not None and driver.error is not None:
                raise driver.error
            if end is not None and clock.monotonic() >= end:
                raise TimedOut
            clock.sleep(every)


class _Patience:
    """Inside, that the store or the blobs do not answer is borne, but not for ever. A store on
    this machine answers or is broken, and credentials that are refused do not get better."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._since: float | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None:
            self._since = None
            return False
        borne = isinstance(error, Unreachable) and not isinstance(error, Unauthorized)
        if not borne or is_local(self._session.store):
            return False
        now = self._session.clock.monotonic()
        if self._since is None:
            self._since = now
            self._session.note(f"{error}\nTrials train on, and it is asked again.")
        return now - self._since < PATIENCE_S


def follow_until(session: Session, follower: Follower, every: float) -> Iterator[Picture]:
    """The experiment again and again, `every` seconds, for as long as the caller wants it."""
    while True:
        follower.look(session.clock.now())
        if follower.picture is not None:
            yield follower.picture
        session.clock.sleep(every)
