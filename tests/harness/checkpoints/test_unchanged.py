"""What is the same as in the save before is compared, and neither hashed nor written again; and
whatever was changed, by whatever means, is saved as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from burst.harness.checkpoints.saving.writing import Writers
from tests.harness.checkpoints.support import Lab, request, same

ROWS = 2**20
"""Four bytes each: a file of its own."""


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what was hashed."""
    sizes: list[int] = []
    hash_it = Writers.sha256

    def spy(self: Writers, data: bytes | memoryview) -> str:
        sizes.append(len(data))
        return hash_it(self, data)

    monkeypatch.setattr(Writers, "sha256", spy)
    return sizes


class State:
    """A frozen layer, one in half precision, and a trained one beside them."""

    def __init__(self) -> None:
        self.frozen = torch.arange(ROWS, dtype=torch.float32)
        self.half = torch.arange(2 * ROWS, dtype=torch.int32).view(torch.bfloat16)
        self.trained = torch.nn.Parameter(torch.zeros(1000))
        self.optimizer = torch.optim.SGD([self.trained], lr=0.1)

    def tree(self) -> dict[str, Any]:
        return {"frozen": self.frozen, "half": self.half, "trained": self.trained}

    def train(self) -> None:
        self.trained.grad = torch.ones(1000)
        self.optimizer.step()


def save(engine: Any, state: State, batches: int) -> None:
    assert engine.save(request(state.tree(), batches=batches, optimizers=[state.optimizer]))
    assert engine.wait(30)
    assert engine.poll() == []


def test_a_frozen_layer_is_hashed_and_written_once(tmp_path: Path, hashed: list[int]) -> None:
    lab, state = Lab(tmp_path), State()
    engine = lab.engine()
    save(engine, state, 1)
    assert sum(hashed) > 8 * ROWS
    before = lab.stored()
    for batches in (2, 3):
        hashed.clear()
        state.train()
        save(engine, state, batches)
        assert sum(hashed) < 100_000
    added = [blob for blob in lab.blobs.list("checkpoints/") if blob.key not in before]
    assert sum(blob.size for blob in added) < 100_000
    restored = lab.engine().restore()
    assert restored is not None
    assert same(restored.shared["half"], state.half)
    assert torch.equal(restored.shared["trained"], state.trained)
    lab.close()


def by_torch(state: State, row: int) -> None:
    state.frozen[row] += 1


def by_data(state: State, row: int) -> None:
    state.frozen.data[row] += 1


def by_numpy(state: State, row: int) -> None:
    state.frozen.numpy()[row] += 1


def by_another(state: State, row: int) -> None:
    state.frozen = state.frozen.clone()
    state.frozen[row] += 1


@pytest.mark.parametrize("change", [by_torch, by_data, by_numpy, by_another])
@pytest.mark.parametrize("row", [0, 1234, ROWS - 1])
def test_a_single_element_that_was_changed_is_saved(
    change: Callable[[State, int], None], row: int, tmp_path: Path
) -> None:
    lab, state = Lab(tmp_path), State()
    engine = lab.engine()
    save(engine, state, 1)
    change(state, row)
    save(engine, state, 2)
    restored = lab.engine().restore()
    assert restored is not None
    assert same(restored.shared["frozen"], state.frozen)
    lab.close()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["back", "forth", "none"]), st.booleans()), max_size=6))
def test_whatever_was_changed_between_saves_the_newest_state_comes_back(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bool]]
) -> None:
    lab, state = Lab(tmp_path_factory.mktemp("lab")), State()
    engine = lab.engine(background=True)
    for batches, (change, waits) in enumerate(steps, start=1):
        if change != "none":
            state.frozen.data[77] += 1 if change == "forth" else -1
        state.train()
        engine.save(request(state.tree(), batches=batches, optimizers=[state.optimizer]))
        if waits:
            engine.wait(30)
    save(engine, state, len(steps) + 1)
    restored = lab.engine().restore()
    assert restored is not None
    assert same(restored.shared["frozen"], state.frozen)
    assert torch.equal(restored.shared["trained"], state.trained)
    lab.close()


def test_a_frozen_layer_whose_file_was_removed_is_written_again(
    tmp_path: Path, hashed: list[int]
) -> None:
    lab, state = Lab(tmp_path), State()
    engine = lab.engine()
    save(engine, state, 1)
    for blob in list(lab.blobs.list("checkpoints/")):
        if blob.size > ROWS:
            lab.blobs.delete(blob.key)
    hashed.clear()
    state.train()
    save(engine, state, 2)
    assert sum(hashed) < 100_000
    restored = lab.engine().restore()
    assert restored is not None
    assert same(restored.shared["frozen"], state.frozen)
    lab.close()
