"""What every attempt on a node shares: where it is, how long things take, what to start."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from burst.core.clock import Clock, SystemClock
from burst.core.model import Node
from burst.core.workspace import Workspace


@dataclass(frozen=True)
class Settings:
    """The agent's measures, in seconds where they are times."""

    launcher: tuple[str, ...] = ("-m", "burst.harness.launch")
    """What the interpreter is given to start the ranks."""
    lease: float = 30.0
    poll: float = 0.2
    poll_remote: float = 1.0
    """Between two looks at a store that is not on this machine."""
    node_every: float = 1.0
    """Between two looks at the node's own record."""
    ship_every: float = 2.0
    sample_every: float = 10.0
    flush_patience: float = 10.0
    """How long a release waits for the last lines of the logs to be shipped."""
    keep_shipping: float = 300.0
    """How long after the release they are still tried."""
    rehearse: tuple[str, ...] = ("-m", "burst.harness.rehearse")
    """What the interpreter is given to restore a checkpoint and compare it."""
    rehearse_every: float = 5.0
    """Between two looks for a checkpoint to rehearse, where one is needed."""
    rehearse_limit: float = 3600.0
    """How long one rehearsal may take."""
    rehearse_patience: float = 300.0
    """How long after the release one may still go on."""
    grace: float = 120.0
    """For a drain of an experiment whose own cannot be read."""


@dataclass(frozen=True)
class Site:
    ws: Workspace
    node: Node
    settings: Settings = Settings()
    clock: Clock = field(default_factory=SystemClock)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The agent's own environment."""
    wake: Callable[[], None] = lambda: None
    """Makes the agent look again at once."""

    @property
    def folder(self) -> Path:
        return nodes_folder(self.ws.home) / self.node.id

    @property
    def cache(self) -> Path:
        return self.ws.home / "cache"


def nodes_folder(home: Path) -> Path:
    return home / "nodes"
