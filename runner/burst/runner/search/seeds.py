"""Randomness of a search: every trial's own, whatever order the trials come in."""

from __future__ import annotations

import random


def generator(experiment_seed: int, request: str, purpose: str) -> random.Random:
    """A generator for one purpose of one trial.

    Seeding `random.Random` with text goes through SHA-512, so neighbouring trials are unrelated
    and the same text means the same numbers on every machine and Python version.
    """
    return random.Random(f"burst/{experiment_seed}/{request}/{purpose}")


def trial_seed(experiment_seed: int, request: str) -> int:
    """The seed of a trial, in [0, 2**31)."""
    return generator(experiment_seed, request, "seed").randrange(2**31)
