"""A trial with checkpoints to look at, to hand out and to remove."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.checkpoints.support import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path / "blobs")
    yield made
    made.close()
