"""Random orders of `n` rows that can be entered anywhere.

Up to one block of rows the order is a sort by random keys, so every order is equally likely.
Beyond, it is a Feistel network over the row numbers: a bijection that is computed for any range
alone, so that the row at place 10⁹ costs what the row at place 0 does, without a list of all rows.
Both rest on integer arithmetic and on the documented raw stream of Philox only, so an order stays
what it is across library versions and machines (unlike `torch.randperm`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from burst.harness.data.randomness import spread

Rows = NDArray[np.int64]
_Words = NDArray[np.uint64]

BLOCK = 1 << 14
"""Rows per block. A block is what entering an order costs: under a millisecond."""

_ROUNDS = 8
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))


class Permutation:
    """The order that a 64-bit key gives `size` rows."""

    def __init__(self, size: int, key: int) -> None:
        self.size = size
        self._key = key
        self._block_at = -1
        self._block: Rows = np.empty(0, np.int64)

    def take(self, start: int, stop: int) -> Rows:
        """The rows at places start … stop-1. Costs O(stop - start) and at most a block more."""
        if start >= stop:
            return np.empty(0, np.int64)
        first, last = start // BLOCK, (stop - 1) // BLOCK
        blocks = [self._blocks(number) for number in range(first, last + 1)]
        rows = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        return rows[start - first * BLOCK : stop - first * BLOCK]

    def _blocks(self, number: int) -> Rows:
        if number != self._block_at:
            self._block_at = number
            if self.size <= BLOCK:
                self._block = _sorted_by_keys(self.size, self._key)
            else:
                start = number * BLOCK
                places = np.arange(start, min(start + BLOCK, self.size), dtype=np.uint64)
                self._block = _walk(places, self.size, self._key)
        return self._block


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
