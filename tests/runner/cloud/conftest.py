"""One model of EC2 a process, and houses over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burst.core import ids
from tests.runner.cloud.house import CloudHouse
from tests.runner.cloud.life import Make, small_life
from tests.runner.cloud.model import Model, the_model


@pytest.fixture(autouse=True, scope="module")
def _ids() -> Iterator[None]:
    """Lives have ids of their own, the same in each (`Model.empty`)."""
    made: Any = ids
    before = made.chance
    yield
    made.chance = before


@pytest.fixture(scope="session")
def model() -> Model:
    return the_model()


@pytest.fixture
def make(model: Model, tmp_path: Path) -> Make:
    """Makes a house; the one before is over then."""

    def made(script: Any = small_life, **settings: Any) -> CloudHouse:
        return CloudHouse(tmp_path, model, script, **settings)

    return made
