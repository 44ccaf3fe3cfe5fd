"""Randomness of user code in the loader: a function of the seed and of the place in the order.

A dataset's `__getitem__`, a transform and a collate function draw from the global generators of
Python, NumPy and torch. Whatever they draw has to be the same for every number of workers and
after every resume, and must leave the trainer's own generators where they were.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_MASK = (1 << 64) - 1


def derive(seed: int, *words: int | str) -> int:
    """64 bits that depend on the seed and on every word; the same on every machine and version."""
    text = "/".join(str(word) for word in (seed, *words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def spread(key: int, number: int) -> int:
    """The `number`-th of the independent 64-bit seeds of `key` (splitmix64: Steele, Lea and
    Flood, "Fast splittable pseudorandom number generators", 2014)."""
    z = (key + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


@contextmanager
def kept_generators() -> Iterator[None]:
    """Leave the global CPU generators as they were found, whatever happens inside."""
    ours = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(ours[0])
        np.random.set_state(ours[1])
        torch.set_rng_state(ours[2])
