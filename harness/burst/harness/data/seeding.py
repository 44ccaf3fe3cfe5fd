"""Seeds the global generators for every row, at the price of those that rows draw from.

Seeding all of them for every row costs more than many a row does. So a generator that the rows
have not been seen to draw from is looked at after the batch only: if it has moved, rows do draw
from it, and the batch is fetched again with a seed of it for every row. Either way a row draws
from a generator that was seeded for it, so when this is learnt changes no batch.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

T = TypeVar("T")
Work = Callable[[Callable[[int], None]], T]

_numpy: Any = np.random  # whose stubs leave out get_bit_generator

_LEARNT_FROM = 8
"""Rows of the first batch after which every generator is looked at."""


@dataclass(frozen=True)
class _Generator:
    """One of the global generators: how to seed it, and a mark that tells, just after seeding,
    whether it has been drawn from since."""

    seed: Callable[[int], Any]
    mark: Callable[[], Any]


def _numpy_mark() -> bytes:
    # `get_state` takes 50 µs. Seeding forgets the second normal number that NumPy keeps, so the
    # first draw after it always moves the Mersenne Twister: 624 words and a position.
    return ctypes.string_at(_numpy.get_bit_generator().ctypes.state_address, 2500)


# Not `torch.manual_seed`, which would also seed the accelerators: those are the model's.
_TORCH = _Generator(torch.default_generator.manual_seed, torch.default_generator.get_state)
_OTHERS = (
    _Generator(random.seed, random.getstate),
    _Generator(lambda seed: np.random.seed(seed & 0xFFFFFFFF), _numpy_mark),
)


def seed_generators(seed: int) -> None:
    """Seed Python's, NumPy's and torch's global CPU generators with 64 bits."""
    for generator in (_TORCH, *_OTHERS):
        generator.seed(seed)


class Seeding:
    """Runs the fetches of one process."""

    def __init__(self) -> None:
        # torch's is seeded always: its seed can be read without drawing (`torch.initial_seed`).
        self._drawn = [_TORCH]
        self._idle = list(_OTHERS)
        self._has_learnt = False

    def __reduce__(self) -> tuple[type[Seeding], tuple[()]]:
        return Seeding, ()  # another process learns for itself

    def run(self, work: Work[T]) -> T:
        """The result of `work`, which calls the function that it is given with a seed before each
        of its steps. It is called again if it draws from a generator that it was not seen to draw
        from before."""
        if not self._has_learnt:
            self._has_learnt = True
            return self._learn(work)
        marks = []
        for generator in self._idle:
            generator.seed(0)
            marks.append(generator.mark())
        try:
            result = work(self._seed)
        except Exception:
            if not self._notice(marks):
                raise
        else:
            if not self._notice(marks):
                return result
        return self.run(work)

    def _seed(self, seed: int) -> None:
        for generator in self._drawn:
            generator.seed(seed)

    def _learn(self, work: Work[T]) -> T:
        marks: list[Any] = []
        steps = 0

        def seed_and_look(seed: int) -> None:
            nonlocal steps, marks
            steps += 1
            if marks:
                self._notice(marks)
            seed_generators(seed)
            marks = [each.mark() for each in self._idle] if steps <= _LEARNT_FROM else []

        result = work(seed_and_look)
        if marks:
            self._notice(marks)
        return result

    def _notice(self, marks: list[Any]) -> bool:
        """Whether idle generators have moved; they are no longer idle."""
        moved = [g for g, mark in zip(self._idle, marks, strict=True) if g.mark() != mark]
        self._drawn += moved
        self._idle = [generator for generator in self._idle if generator not in moved]
        return bool(moved)
