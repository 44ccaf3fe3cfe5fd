"""Random generators: the numbers after a restore are the numbers that would have come."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from burst.core.errors import BurstError
from burst.harness.checkpoints.codec import rng
from tests.harness.checkpoints.support import Lab, request


@pytest.fixture(autouse=True)
def _generators_as_before() -> Iterator[None]:
    before = rng.capture()
    yield
    rng.restore(before)


def draw() -> list[Any]:
    python = [random.random(), random.gauss(0, 1), random.randrange(10**30)]
    numpy = [np.random.rand(), np.random.normal(), np.random.randint(10**9)]
    return [*python, *numpy, *torch.rand(3).tolist(), torch.randn(17).tolist()]


def through_a_checkpoint(lab: Lab, tree: Any) -> Any:
    lab.engine().save(request({}, {"rng": tree}))
    found = lab.engine().restore()
    assert found is not None
    return found.own["rng"]


def test_the_numbers_go_on_where_they_were(lab: Lab) -> None:
    draw()  # a Gaussian of each pair is left over, which is state, too
    saved = rng.capture()
    expected = [draw() for _ in range(3)]
    restored = through_a_checkpoint(lab, saved)
    draw()
    assert rng.restore(restored) == []
    assert [draw() for _ in range(3)] == expected


def test_capturing_draws_nothing_and_is_no_view() -> None:
    saved = rng.capture()
    first = draw()
    rng.capture()
    rng.restore(saved)
    assert draw() == first
    rng.restore(saved)
    assert draw() == first


def test_another_bit_generator_of_numpy_comes_back(lab: Lab) -> None:
    before = np.random.get_bit_generator()  # type: ignore[attr-defined]
    try:
        np.random.set_bit_generator(np.random.PCG64(3))  # type: ignore[attr-defined]
        saved = rng.capture()
        expected = np.random.rand(4).tolist()
        np.random.set_bit_generator(before)  # type: ignore[attr-defined]
        rng.restore(through_a_checkpoint(lab, saved))
        assert np.random.rand(4).tolist() == expected
    finally:
        np.random.set_bit_generator(before)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["python", "numpy", "torch"])
def test_a_missing_state_is_an_error_that_names_it(name: str) -> None:
    saved = rng.capture()
    del saved[name]
    with pytest.raises(BurstError, match=f"no random state of {name}"):
        rng.restore(saved)


@pytest.mark.parametrize("tree", [None, [], {}])
def test_what_is_no_random_state_is_an_error(tree: Any) -> None:
    with pytest.raises(BurstError, match="python, numpy, torch"):
        rng.restore(tree)


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("python", (3, (1, 2), None)),
        ("numpy", {"bit_generator": "Dice", "state": {}}),
        ("numpy", {"bit_generator": "seed", "state": {}}),
        ("torch", torch.zeros(3, dtype=torch.uint8)),
    ],
)
def test_a_state_that_does_not_fit_is_an_error_that_names_it(name: str, state: Any) -> None:
    with pytest.raises(BurstError, match=f"random state of {name} does not fit"):
        rng.restore({**rng.capture(), name: state})


class _Cuda:
    """Generators of CUDA devices that are not here."""

    def __init__(self, count: int, current: int = 0) -> None:
        self.states = [torch.tensor([10 + device], dtype=torch.uint8) for device in range(count)]
        self.current = current

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(self.states))
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: bool(self.states))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(self.states))
        monkeypatch.setattr(torch.cuda, "current_device", lambda: self.current)
        monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: self.states[device])
        monkeypatch.setattr(torch.cuda, "set_rng_state", self._set)

    def _set(self, state: torch.Tensor, device: int) -> None:
        self.states[device] = state

    @property
    def numbers(self) -> list[int]:
        return [int(state) for state in self.states]


def test_every_visible_device_has_its_own_state(monkeypatch: pytest.MonkeyPatch) -> None:
    _Cuda(3).install(monkeypatch)
    saved = rng.capture()
    here = _Cuda(3)
    here.states = [torch.tensor([0], dtype=torch.uint8)] * 3
    here.install(monkeypatch)
    assert rng.restore(saved) == []
    assert here.numbers == [10, 11, 12]


def test_on_a_machine_with_other_devices_the_ranks_own_goes_on_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _Cuda(4, current=2).install(monkeypatch)
    saved = rng.capture()
    here = _Cuda(1)
    here.install(monkeypatch)
    (note,) = rng.restore(saved)
    assert "4 CUDA devices and 1" in note
    assert here.numbers == [12]


def test_moving_between_cpu_and_cuda_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    on_cpu = rng.capture()
    _Cuda(1).install(monkeypatch)
    assert "holds no random state of a CUDA device" in rng.restore(on_cpu)[0]
    on_cuda = rng.capture()
    _Cuda(0).install(monkeypatch)
    assert "none is here" in rng.restore(on_cuda)[0]
