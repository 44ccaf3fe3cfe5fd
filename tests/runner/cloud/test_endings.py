"""The runner is ended after every write, or loses any one answer, on AWS's pool: nothing leaks.

Faults are enumerated, not drawn: one whole life for each point. To end after one write is to end
before the next, and a read leaves no trace: so a life for each write is one for each point at
which a runner can end.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.runner.cloud.faults import COMMIT, Acts, Ended, lost
from tests.runner.cloud.house import CloudHouse
from tests.runner.cloud.life import live, small_life
from tests.runner.cloud.model import Model

WRITES = (
    COMMIT,
    "create_fleet",
    "terminate_instances",
    "create_placement_group",
    "delete_placement_group",
)
PARTS = 4
"""Tests that share the points, so that several processes can."""
MORE_MACHINES = 2
"""That one fault may cost at most, beside those of the undisturbed life."""


class Undisturbed(NamedTuple):
    acts: list[str]
    outcome: Mapping[str, Any]
    made: int


@pytest.fixture(scope="module")
def undisturbed(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    house = live(CloudHouse(tmp_path_factory.mktemp("undisturbed"), model, small_life))
    return Undisturbed(house.acts.names, house.outcome(), house.made())


def test_the_life_that_is_disturbed_has_everything_in_it(undisturbed: Undisturbed) -> None:
    assert undisturbed.outcome["experiments"] == ["completed"] * 2
    assert undisturbed.outcome["completions"] == [1, 1, 1]
    assert undisturbed.outcome["live"] == (0, 0)
    assert undisturbed.outcome["left"] == []
    assert 5 <= undisturbed.made <= 7, "four, and about one for each that was lost"
    assert {*WRITES, "describe_instances", "describe_volumes"} <= set(undisturbed.acts)


def check(house: CloudHouse, undisturbed: Undisturbed, what: str) -> None:
    assert house.outcome() == undisturbed.outcome, f"{what}\n{house.story()}"
    assert house.made() <= undisturbed.made + MORE_MACHINES, f"{what}\n{house.story()}"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_runner_that_ends_after_any_write_leaves_nothing_and_loses_nothing(
    tmp_path: Path, model: Model, undisturbed: Undisturbed, part: int
) -> None:
    writes = [n for n, name in enumerate(undisturbed.acts, 1) if name in WRITES]
    assert len(writes) > 40
    for point in writes[part::PARTS]:
        acts = Acts(at=point, after=True, error=lambda act: Ended(act))
        house = live(CloudHouse(tmp_path, model, small_life, acts=acts))
        assert acts.fired
        check(house, undisturbed, f"ended after act {point}: {undisturbed.acts[point - 1]}")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_any_one_answer_may_be_lost(
    tmp_path: Path, model: Model, undisturbed: Undisturbed, part: int
) -> None:
    points = range(1, len(undisturbed.acts) + 1)
    for point in points[part::PARTS]:
        acts = Acts(at=point, after=True, error=lost)
        house = live(CloudHouse(tmp_path, model, small_life, acts=acts))
        assert acts.fired
        check(house, undisturbed, f"lost the answer of {point}: {undisturbed.acts[point - 1]}")
