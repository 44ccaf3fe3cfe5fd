"""A trial, and two places for its checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from burst.core.launch import Tier
from tests.core.checkpoints.tiers.tier_lab import TierLab


@pytest.fixture(autouse=True, scope="module")
def _no_fsync() -> Iterator[None]:
    """No test here takes the machine's power away, and a busy disk makes every fsync slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture
def lab() -> TierLab:
    return TierLab()


@pytest.fixture
def two(tmp_path: Path) -> list[Tier]:
    """The node's own disk, and a place that outlives it."""
    return [
        Tier(url=f"file://{tmp_path}/local", shared=False),
        Tier(url=f"file://{tmp_path}/shared"),
    ]
