"""Random orders are bijections that can be entered anywhere."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.harness.data.order import Shuffled
from burst.harness.data.permutation import SMALL, Permutation

KEYS = st.integers(0, 2**64 - 1)
SIZES = st.one_of(st.integers(1, 200), st.integers(SMALL - 2, 5 * SMALL))


@given(size=SIZES, key=KEYS)
def test_every_row_comes_exactly_once(size: int, key: int) -> None:
    rows = Permutation(size, key).at(np.arange(size))
    assert np.array_equal(np.sort(rows), np.arange(size))


@given(size=SIZES, key=KEYS, data=st.data())
def test_a_place_is_the_same_however_it_is_reached(
    size: int, key: int, data: st.DataObject
) -> None:
    places = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=20)), np.int64)
    whole = Permutation(size, key).at(np.arange(size))
    assert np.array_equal(Permutation(size, key).at(places), whole[places])


@pytest.mark.parametrize("size", [50, 3 * SMALL])
def test_seed_and_epoch_alone_make_the_order(size: int) -> None:
    def order(seed: int, epoch: int) -> bytes:
        return Shuffled(size, seed).at(epoch, np.arange(size)).tobytes()

    assert order(1, 0) == order(1, 0)
    assert len({order(seed, epoch) for seed in range(5) for epoch in range(5)}) == 25


def test_orders_stay_what_they_are_from_version_to_version() -> None:
    """A checkpoint of today has to go on with the same rows under the libraries of tomorrow."""
    assert Permutation(10, 7).at(np.arange(10)).tolist() == [8, 4, 1, 6, 3, 2, 7, 5, 9, 0]
    assert Permutation(10**6, 7).at(np.arange(500_000, 500_006)).tolist() == [
        122196,
        333013,
        333068,
        246281,
        712734,
        777404,
    ]


def test_every_order_of_few_rows_is_equally_likely() -> None:
    draws = 4800
    seen = Counter(tuple(Permutation(4, key).at(np.arange(4)).tolist()) for key in range(draws))
    assert set(seen) == set(permutations(range(4)))
    expected = draws / 24
    chi_square = sum((count - expected) ** 2 / expected for count in seen.values())
    assert chi_square < 49.7  # p = 0.001 at 23 degrees of freedom; the keys are fixed


def test_places_of_many_rows_are_spread_evenly() -> None:
    size = 8 * SMALL + 5
    rows = Permutation(size, 3).at(np.arange(SMALL))
    counts = np.histogram(rows, bins=64, range=(0, size))[0]
    expected = SMALL / 64
    assert ((counts - expected) ** 2 / expected).sum() < 103.4  # p = 0.001 at 63 degrees
    steps = np.corrcoef(rows[:-1], rows[1:])[0, 1]
    assert abs(steps) < 4 / np.sqrt(SMALL)


def test_the_far_end_of_a_huge_dataset_is_entered_without_its_order() -> None:
    size = 10**12
    rows = Permutation(size, 1).at(np.arange(size - 100, size))
    assert len(set(rows.tolist())) == 100
    assert rows.min() >= 0
    assert rows.max() < size
