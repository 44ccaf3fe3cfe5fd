"""What is loaded is not searched for garbage: neither meanwhile nor later."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from burst.harness.loading import loading


@pytest.mark.parametrize("before", [True, False])
def test_nothing_is_collected_within_and_afterwards_what_was_before(before: bool) -> None:
    was = gc.isenabled()
    (gc.enable if before else gc.disable)()
    try:
        with suppress(KeyError), loading():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == before
    finally:
        (gc.enable if was else gc.disable)()


def test_what_was_loaded_is_not_looked_through_again() -> None:
    with loading():
        loaded = [[]]  # type: ignore[var-annotated]
    assert not any(each is loaded for each in gc.get_objects())
