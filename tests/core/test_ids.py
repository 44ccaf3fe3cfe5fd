"""Ids sort by time, are checked before they become paths, and do not repeat."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.clock import ManualClock
from burst.core.errors import UsageError
from burst.core.ids import check_id, new_id, trial_id

KINDS = ("exp", "alloc", "node", "ckpt")


@given(st.floats(1.8e9, 2.7e9), st.floats(0.002, 1e8), st.sampled_from(KINDS))
def test_ids_sort_by_the_time_they_were_made(start: float, later: float, kind: str) -> None:
    clock = ManualClock(start)
    first = new_id(kind, clock)
    clock.advance(later)
    assert first < new_id(kind, clock)


def test_trials_sort_by_their_number() -> None:
    ids = [trial_id("exp-1m3k9zq4w7c", number) for number in range(1200)]
    assert ids == sorted(ids)
    assert all(check_id(id) == id for id in ids)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_is_an_id(kind: str) -> None:
    id = new_id(kind, ManualClock())
    assert check_id(id) == id
    assert id.startswith(f"{kind}-")


def test_a_kind_that_is_none_is_a_defect() -> None:
    with pytest.raises(ValueError, match="zebra"):
        new_id("zebra", ManualClock())


@pytest.mark.parametrize(
    "text",
    [
        "", "exp", "exp-", "exp-1m3k9zq4w7", "exp-1m3k9zq4w7cc", "exp-1M3K9ZQ4W7C",
        "exp-1m3k9zq4w7i", "../exp-1m3k9zq4w7c", "exp-1m3k9zq4w7c/..", "exp-../../../x",
        "exp-1m3k9zq4w7c.t1", "exp-1m3k9zq4w7c.t0001.t0001", "node-1m3k9zq4w7c.t0001",
        "exp-1m3k9zq4w7c\n", "exp-1m3k9zq4w7c.t0001\n", "exp-1m3k9zq4w7c.t٠٠٠١",
        " exp-1m3k9zq4w7c", "zeb-1m3k9zq4w7c", "exp-1m3k9zq4w7c\0",
    ],
)  # fmt: skip
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not an id"):
        check_id(text)
