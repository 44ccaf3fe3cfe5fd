"""A command line on a real store in a home of the test's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from burst.cli.root import cli
from burst.cli.session import Session
from burst.core.clock import ManualClock
from burst.core.store.port import Store
from burst.core.workspace import open_workspace
from tests.cli import world


@dataclass
class Burst:
    """`burst` as a person calls it; everything happens at `world.NOW`."""

    session: Session

    @property
    def store(self) -> Store:
        return self.session.store

    def __call__(self, *args: str, status: int = 0, **environ: str) -> Result:
        self.session.__dict__.pop("out", None)
        self.session.__dict__.pop("err", None)
        self.session.environ = {**self.session.environ, **environ}
        result = CliRunner().invoke(cli, args, obj=self.session)
        assert result.exit_code == status, result.output
        return result

    def json(self, *args: str) -> Any:
        return json.loads(self(*args, "--json").stdout)


@pytest.fixture
def burst(burst_home: Path, tmp_path: Path) -> Iterator[Burst]:
    environ = {"BURST_HOME": str(burst_home), "COLUMNS": "120"}
    session = Session(environ=environ, cwd=tmp_path, clock=ManualClock(world.NOW))
    session.workspace = open_workspace(environ, tmp_path)
    yield Burst(session)
    session.store.close()


@pytest.fixture
def filled(burst: Burst) -> Burst:
    """With the experiments of `world.fill` in the store."""
    world.fill(burst.store)
    return burst
