"""A search goes by what the Trainer logs: the same names, at lengths in its own unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import Trainer, TrainerCallback

from burst.core.model import Judged, Trial
from tests.harness.launching import TRIAL
from tests.harness.transformers.house import House, Rows, arguments, classifier, padded


def searched(folder: Path, monkeypatch: pytest.MonkeyPatch, length: str) -> House:
    asha = {"name": "adaptive_asha", "max_trials": 4, "metric": "eval_loss"}
    return House(folder, monkeypatch, searcher={**asha, "max_length": length})


def make(**changes: Any) -> Any:
    def made(folder: Path, callbacks: list[TrainerCallback]) -> Trainer:
        return Trainer(
            model=classifier(),
            args=arguments(folder, **changes),
            data_collator=padded,
            train_dataset=Rows(),
            eval_dataset=Rows(8),
            callbacks=callbacks,
        )

    return made


def told(house: House) -> list[Judged]:
    return list(house.site.store.get(Trial, TRIAL).untold)


@pytest.mark.parametrize(
    ("length", "lengths"),
    [("3ep", [1, 2, 3]), ("18ba", [6, 12, 18]), ("72rec", [24, 48, 72])],
)
def test_each_evaluation_is_told_at_its_length_in_the_search_s_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: str, lengths: list[int]
) -> None:
    house = searched(tmp_path, monkeypatch, length)
    house.attempt(make())
    rows = house.rows("validation")
    assert [each.batches for each in told(house)] == [6, 12, 18]
    assert [each.length for each in told(house)] == lengths
    assert [each.metric for each in told(house)] == [row["eval_loss"] for _, row in rows]


def test_a_training_that_goes_on_after_a_kill_tells_each_evaluation_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = searched(tmp_path, monkeypatch, "3ep")
    house.through(make(save_strategy="steps", save_steps=4), [7, 14], kill=True)
    assert [each.batches for each in told(house)] == [6, 12, 18]
    assert house.site.store.get(Trial, TRIAL).judged == 3
