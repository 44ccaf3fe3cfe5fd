"""Where state lives: the store, the blobs and the cluster of the person who calls.

`BURST_HOME` (default `~/.burst`) holds everything on this machine. `BURST_STORE` and `BURST_BLOBS`
name others, and so does a `burst.yaml` in the working folder or above it; the environment wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burst.core.blobs.port import Blobs
from burst.core.config.cluster import ClusterConfig
from burst.core.store.port import Store


@dataclass(frozen=True)
class Workspace:
    home: Path
    cluster: ClusterConfig
    store: Store
    blobs: Blobs


def home_of(environ: Mapping[str, str]) -> Path:
    """The folder for state on this machine, made absolute; it may not exist yet."""
    return Path(environ.get("BURST_HOME") or "~/.burst").expanduser().absolute()
