"""Random orders of `n` rows that can be entered anywhere.

An order of few rows is a sort by random keys, so every order is equally likely. An order of many
is a Feistel network over the row numbers: a bijection that is computed for any place alone, so
that the row at place 10⁹ costs what the row at place 0 does, without a list of all rows.
Both rest on integer arithmetic and on the documented raw stream of Philox only, so an order stays
what it is across library versions and machines (unlike `torch.randperm`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from burst.harness.data.randomness import spread

Rows = NDArray[np.int64]
_Words = NDArray[np.uint64]

SMALL = 1 << 14
"""Up to so many rows an order is kept whole."""

_ROUNDS = 8
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))


class Permutation:
    """The order that a 64-bit key gives `size` rows."""

    def __init__(self, size: int, key: int) -> None:
        self._size = size
        self._key = key
        self._rows = _sorted_by_keys(size, key) if size <= SMALL else None

    def at(self, places: Rows) -> Rows:
        """The rows at places from 0 to size - 1. Costs about 30 ns a place, wherever it is; best
        asked for a thousand places or more at once."""
        if self._rows is not None:
            return self._rows[places]
        return _walk(places.astype(np.uint64), self._size, self._key)


def _sorted_by_keys(size: int, key: int) -> Rows:
    keys = np.random.Philox(key=key).random_raw(size)
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)


def _walk(places: _Words, size: int, key: int) -> Rows:
    """Apply the network until the result is a row ("cycle walking": Black and Rogaway, "Ciphers
    with arbitrary finite domains", 2002). The network's domain is under twice the size, so two
    rounds are expected."""
    bits = (size - 1).bit_length()
    rows = _network(places, bits, key)
    outside = np.flatnonzero(rows >= size)
    while outside.size:
        again = _network(rows[outside], bits, key)
        rows[outside] = again
        outside = outside[again >= size]
    return rows.astype(np.int64)


def _network(words: _Words, bits: int, key: int) -> _Words:
    """A Feistel network over numbers of `bits` bits, whose halves may differ by one bit."""
    low_bits = bits // 2
    widths = (np.uint64(bits - low_bits), np.uint64(low_bits))
    high, low = words >> widths[1], words & np.uint64((1 << low_bits) - 1)
    for number in range(_ROUNDS):
        width = widths[number % 2]
        mixed = (low + np.uint64(spread(key, number))) * _MIX[0]
        mixed ^= mixed >> np.uint64(32)
        mixed *= _MIX[1]
        high, low = low, high ^ (mixed >> (np.uint64(64) - width))
    return (high << widths[1]) | low
