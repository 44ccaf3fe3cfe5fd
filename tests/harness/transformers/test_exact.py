"""A Trainer that was interrupted ends as one that was not, and as one without burst."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.transformers.house import House, alone, differing, everything, script

STOPS = {
    "in an epoch": [2],
    "at its last step": [6],
    "after its first step": [7],
    "twice in one": [8, 10],
    "at the last step of all": [18],
    "everywhere": [1, 2, 3, 6, 7, 12, 17],
}
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "noisy": {"noisy": True},
    "by steps": {"eval_strategy": "steps", "eval_steps": 3, "logging_strategy": "epoch"},
    "accumulating": {"gradient_accumulation_steps": 4, "noisy": True, "num_train_epochs": 9},
    "saving": {"save_strategy": "steps", "save_steps": 2, "noisy": True},
}


@pytest.mark.parametrize("stops", STOPS.values(), ids=STOPS)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_training_that_was_left_ends_as_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: dict[str, Any], stops: list[int]
) -> None:
    expected = everything(alone(script(**way), tmp_path / "alone"))
    house = House(tmp_path, monkeypatch)
    assert differing(everything(house.through(script(**way), stops)), expected) == []
