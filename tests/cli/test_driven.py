"""Who waits sees to it that somebody drives, as long as it waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burst.cli import driving
from burst.core.clock import ManualClock


class _Session:
    def __init__(self, home: Path) -> None:
        self.clock = ManualClock()
        self.home = self.cwd = home
        self.environ: dict[str, str] = {}


def test_a_driver_that_died_while_somebody_waits_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(driving, "start_runner", lambda *given: started.append(given))
    session: Any = _Session(tmp_path)
    over = [False]
    ask = driving.driven(session, lambda _: over[0])
    with driving.driving(tmp_path):
        session.clock.advance(2 * driving.DRIVEN_EVERY_S)
        assert not ask(None)
    assert started == []  # somebody drives
    assert not ask(None)
    assert started == []  # it was looked just now
    session.clock.advance(driving.DRIVEN_EVERY_S)
    assert not ask(None)
    assert len(started) == 1
    over[0] = True
    session.clock.advance(driving.DRIVEN_EVERY_S)
    assert ask(None)
    assert len(started) == 1
