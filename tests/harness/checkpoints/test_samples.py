"""Samples of live tensors, by which changes are noticed that torch does not count."""

from __future__ import annotations

import os

import pytest
import torch

from burst.harness.checkpoints.saving.samples import SAMPLE_BYTES, Samples


def test_a_change_past_torch_s_count_is_noticed_by_its_number() -> None:
    tensors = {7: torch.zeros(10_000), 9: torch.zeros(3), 11: torch.zeros(0)}
    samples = Samples(tensors.items())
    assert samples.changed() is None
    tensors[9].numpy()[2] = 1
    assert samples.changed() == 9
    tensors[9].zero_()
    assert samples.changed() is None
    tensors[7].data[5_000] = 1
    assert samples.changed() == 7


@pytest.mark.parametrize("count", [0, 1, 1024, 1025, 3000])
def test_any_number_of_tensors_is_sampled(count: int) -> None:
    whole = torch.arange(3000.0)
    samples = Samples((n, whole[n : n + 1]) for n in range(count))
    assert samples.changed() is None
    if count:
        whole[count - 1] += 1
        assert samples.changed() == count - 1


def test_the_middle_of_a_large_tensor_is_what_is_looked_at() -> None:
    large = torch.zeros(4 * SAMPLE_BYTES, dtype=torch.uint8)
    samples = Samples([(0, large)])
    large[2 * SAMPLE_BYTES] = 1
    assert samples.changed() == 0
    large.zero_()
    large[0] = 1
    assert samples.changed() is None


def test_what_is_not_plain_memory_is_left_out() -> None:
    strided = torch.zeros(8, 8).t()[::2]
    samples = Samples([(0, strided), (1, torch.zeros(4, dtype=torch.complex64).conj())])
    strided.add_(1)
    assert samples.changed() is None


def test_nothing_stays_open() -> None:
    def held() -> int:
        with os.scandir("/proc/self/fd") as found:
            links = [entry.path for entry in found]
        return sum("burst-samples" in _target(link) for link in links)

    before = held()
    kept = Samples([(0, torch.zeros(4))])
    assert held() == before + 1
    del kept
    assert held() == before


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:  # the listing's own
        return ""
