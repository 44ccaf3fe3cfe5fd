"""The bandwidth of a gang is reckoned as nccl-tests does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.core.errors import UsageError
from burst.harness import allreduce
from burst.harness.allreduce import bus_bandwidth


def test_the_bus_carries_what_a_ring_carries() -> None:
    """NVIDIA/nccl issue 527: 1 GiB in 8,142.6 µs over 8 ranks is 131.87 and 230.77 GB/s, and in
    35,215 µs over 16 it is 57.17."""
    assert pytest.approx(131.87, abs=0.01) == 2**30 / 8142.6e-6 / 1e9
    assert bus_bandwidth(2**30, 8142.6e-6, 8) / 1e9 == pytest.approx(230.77, abs=0.01)
    assert bus_bandwidth(2**30, 35215e-6, 16) / 1e9 == pytest.approx(57.17, abs=0.01)


@given(ranks=st.integers(2, 4096), seconds=st.floats(1e-6, 10))
def test_it_is_between_one_and_two_times_what_each_rank_sums(ranks: int, seconds: float) -> None:
    each = 2**20 / seconds
    assert each <= bus_bandwidth(2**20, seconds, ranks) * (1 + 1e-9)
    assert bus_bandwidth(2**20, seconds, ranks) < 2 * each


def test_one_rank_alone_has_nothing_to_measure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    for name in ("BURST_LAUNCH", "WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="two ranks"):
        allreduce.main()
