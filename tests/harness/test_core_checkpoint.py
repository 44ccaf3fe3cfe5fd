"""What the core API's checkpoints take, and what they refuse in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import burst.harness
from burst.core.errors import UsageError
from burst.harness.core_checkpoint import counted_batches


@pytest.mark.parametrize("value", [0, 7, np.int64(7), torch.tensor(7)])
def test_a_number_of_batches_is_any_whole_number(value: Any) -> None:
    assert counted_batches(value) == int(value)


@pytest.mark.parametrize(
    "value",
    [-1, "3", True, 2**70, pytest.param(10**5000, id="long"), 1.5, None, float("nan"), [1]],
)
def test_what_is_no_number_of_batches_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="is no number of batches"):
        counted_batches(value)


def test_a_state_before_one_that_was_saved_is_refused_and_the_saved_one_stays(
    tmp_path: Path,
) -> None:
    with burst.harness.init(folder=tmp_path / "runs") as context:
        context.checkpoint.save({"n": 10}, batches=10)
        with pytest.raises(UsageError, match="batch 5 cannot be saved after one at batch 10"):
            context.checkpoint.save({"n": 5}, batches=5)
        with (
            pytest.raises(UsageError, match="batch 5 cannot be saved"),
            context.checkpoint.store_path(5),
        ):
            raise AssertionError("the block runs for nothing")
    with burst.harness.init(folder=tmp_path / "runs") as context:
        saved = context.checkpoint.restore()
        assert saved is not None
        assert saved.state == {"n": 10}
        with pytest.raises(UsageError, match="batch 9 cannot be saved after one at batch 10"):
            context.checkpoint.save({"n": 9}, batches=9)


def test_of_several_states_at_the_same_batch_the_newest_is_restored(tmp_path: Path) -> None:
    for number in range(0, 6, 2):
        with burst.harness.init(folder=tmp_path / "runs") as context:
            saved = context.checkpoint.restore()
            assert (saved and saved.state) == ({"n": number} if number else None)
            context.checkpoint.save({"n": number + 1}, batches=10)
            context.checkpoint.save({"n": number + 2}, batches=10)


def test_a_script_that_starts_over_saves_from_the_beginning(tmp_path: Path) -> None:
    for batches in (10, 3):
        with burst.harness.init(folder=tmp_path / "runs") as context:
            context.checkpoint.save({"n": batches}, batches=batches)
    with burst.harness.init(folder=tmp_path / "runs") as context:
        saved = context.checkpoint.restore()
        assert saved is not None
        assert saved.batches == 3


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"loss": 10**400}, "a number that is too large"),
        ({"loss": "3"}, "is not one number but str"),
        ({"lo\ud800": 1.0}, "a metric is called"),
        ({1: 1.0}, "a metric is called 1"),
        ([], "metrics= is a mapping"),
    ],
)
def test_metrics_that_cannot_be_kept_are_refused_before_anything_is_saved(
    metrics: Any, words: str, tmp_path: Path
) -> None:
    with burst.harness.init(folder=tmp_path / "runs") as context:
        with pytest.raises(UsageError, match=words):
            context.checkpoint.save({"n": 1}, batches=1, metrics=metrics)
        assert context.checkpoint.restore() is None
