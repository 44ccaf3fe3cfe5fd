"""One process of a trial, as accelerate sees it."""

from __future__ import annotations

import pytest

from burst.harness.transformers.script.alone import forget_gang_of_one

OURS = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}


def test_a_process_alone_has_no_local_rank_and_keeps_the_rest() -> None:
    environ = dict(OURS)
    forget_gang_of_one(environ)
    assert environ == {name: value for name, value in OURS.items() if name != "LOCAL_RANK"}


@pytest.mark.parametrize(
    "asked",
    [
        {"WORLD_SIZE": "2"},
        {"TORCHELASTIC_RUN_ID": "none"},
        {"ACCELERATE_USE_FSDP": "true"},
    ],
)
def test_a_gang_that_was_asked_for_stays(asked: dict[str, str]) -> None:
    environ = OURS | asked
    forget_gang_of_one(environ)
    assert environ == OURS | asked
