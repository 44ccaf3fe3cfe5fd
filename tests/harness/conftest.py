"""What a test of the harness starts, ends with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from burst.harness.reporting import Reporter
from burst.harness.trial import loop


@pytest.fixture(autouse=True)
def _trainings_share_a_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training looks through the whole heap once, which is nothing beside training, and most of
    what a test of a few batches would do."""
    monkeypatch.setattr(loop, "_settled_heap", nullcontext)


@pytest.fixture(autouse=True)
def _no_reporter_outlives_its_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One that a test left, because its trial was killed or its program broken off, would go on
    to open the test's store for as long as the tests run."""
    made: list[Reporter] = []
    begin = Reporter.__init__

    def remembered(self: Reporter, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        made.append(self)

    monkeypatch.setattr(Reporter, "__init__", remembered)
    yield
    for reporter in made:
        reporter.abandon()
    for reporter in made:
        reporter._thread.join(60)
        assert not reporter._thread.is_alive()
