"""What is measured, and what it is measured against."""

from __future__ import annotations

import os
from dataclasses import dataclass

from benchmarks.checkpoint_peers import limits, others
from benchmarks.checkpoint_peers.ours import Ours
from benchmarks.checkpoint_peers.state import Training

ROUNDS = 5
PEER_ROUNDS = 2
"""Peers take seconds each, and are far enough away for fewer rounds."""


def cores() -> int:
    return os.cpu_count() or 1


@dataclass
class Bench:
    """One state, and all that save it."""

    training: Training
    ours: Ours
    raw: limits.RawFile
    copy: limits.Copy
    peers: list[others.Saver]

    @property
    def gigabytes(self) -> float:
        return self.training.bytes / 1e9

    def copied(self) -> float:
        return self.copy.take(list(self.training.tensors().values()))
