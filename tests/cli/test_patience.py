"""Watching bears a store that does not answer for a while: what trains goes on meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burst.cli.following import Follower
from burst.cli.presenting import Quiet
from burst.cli.reading import Picture
from burst.cli.session import Session
from burst.cli.watching import PATIENCE_S, watch
from burst.core.clock import ManualClock
from burst.core.errors import BurstError, NotFound, Unauthorized, Unreachable
from burst.core.store.memory import MemoryStore
from tests.cli import world

LOOKS = ("events", "get", "children", "live", "metrics")


class Away:
    """A store elsewhere, of which calls fail.

    Args:
        error: what they raise.
        calls: the numbers of those that do.
    """

    url = "dynamodb://burst-lab?region=us-east-1"

    def __init__(self, error: Exception, calls: range, url: str = url) -> None:
        self._real = MemoryStore()
        world.fill(self._real)
        self._error, self._failing, self.url = error, calls, url
        self.called = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name not in LOOKS:
            return found

        def call(*given: Any, **named: Any) -> Any:
            self.called += 1
            if self.called - 1 in self._failing:
                raise self._error
            return found(*given, **named)

        return call


def session_on(store: Any, tmp_path: Path) -> Session:
    clock = ManualClock(world.NOW)
    made = Session(environ={}, cwd=tmp_path, clock=clock)

    class Place:
        pass

    place: Any = Place()
    place.store = store
    made.workspace = place
    return made


def watched(store: Any, tmp_path: Path) -> tuple[list[str], Picture]:
    """What was told until the second look that came through, and the last picture."""
    told: list[str] = []

    class Noting(Quiet):
        def show(self, picture: Picture, happened: Any) -> None:
            told.extend(f"{one.subject} {one.name} {one.data}" for one in happened)

    looks = iter(range(99))
    session = session_on(store, tmp_path)
    follower = Follower(store, world.RUNNING)
    seen = watch(session, follower, Noting(), until=lambda _: next(looks) > 0)
    return told, seen


AWAY = Unreachable("the table did not answer", why="no route")


def test_whichever_read_fails_everything_is_told_once_and_in_the_same_order(
    tmp_path: Path,
) -> None:
    whole = Away(AWAY, range(0))
    wanted = watched(whole, tmp_path)
    assert len(wanted[0]) > 3
    for at in range(whole.called):
        told, picture = watched(Away(AWAY, range(at, at + 1)), tmp_path)
        assert told == wanted[0], at
        assert picture.trials == wanted[1].trials


def test_it_is_said_once_that_it_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watched(Away(AWAY, range(3, 30)), tmp_path)
    said = capsys.readouterr().err
    assert said.count("the table did not answer") == 1
    assert "no route" in said
    assert "Trials train on" in said


@pytest.mark.parametrize(
    ("error", "url"),
    [
        (Unauthorized("the token has expired"), Away.url),
        (NotFound("it is gone"), Away.url),
        (AWAY, "sqlite:///home/store.db"),
    ],
)
def test_what_does_not_get_better_is_raised_at_once(
    tmp_path: Path, error: BurstError, url: str
) -> None:
    store = Away(error, range(2, 10**6), url)
    with pytest.raises(type(error)):
        watched(store, tmp_path)
    assert store.called == 3


def test_patience_ends(tmp_path: Path) -> None:
    store: Any = Away(AWAY, range(2, 10**9))
    session = session_on(store, tmp_path)
    began = session.clock.monotonic()
    with pytest.raises(Unreachable):
        watch(session, Follower(store, world.RUNNING), Quiet())
    assert PATIENCE_S <= session.clock.monotonic() - began <= PATIENCE_S + 5


def test_a_store_that_comes_and_goes_is_borne_each_time(tmp_path: Path) -> None:
    """Patience is for one absence, not for the sum of them."""
    store: Any = Away(AWAY, range(0))
    session = session_on(store, tmp_path)
    looks = 0

    def until(_: Picture) -> bool:
        nonlocal looks
        looks += 1
        store._failing = range(store.called, store.called + 100)
        return looks == 5

    watch(session, Follower(store, world.RUNNING), Quiet(), until=until)
    assert session.clock.monotonic() > PATIENCE_S
