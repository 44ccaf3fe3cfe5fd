"""Where state lives: the store, the blobs and the cluster of the person who calls.

`BURST_HOME` (default `~/.burst`) holds everything on this machine. `BURST_STORE` and `BURST_BLOBS`
name others, and so does a `burst.yaml` in the working folder or above it; the environment wins.
`BURST_CLUSTER` names another cluster file than that: a path, or `blobs:` and a key of the blobs,
where machines find it that have no checkout.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burst.core.aws.account import state_urls
from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.moved import settle_in
from burst.core.config.cluster import ClusterConfig
from burst.core.errors import BurstError, NotFound
from burst.core.state_mark import STATE_MARK
from burst.core.store import open_store
from burst.core.store.port import Store

_IN_BLOBS = "blobs:"


@dataclass(frozen=True)
class Workspace:
    home: Path
    cluster: ClusterConfig
    store: Store
    blobs: Blobs


def home_of(environ: Mapping[str, str]) -> Path:
    """The folder for state on this machine, made absolute; it may not exist yet."""
    return Path(environ.get("BURST_HOME") or "~/.burst").expanduser().absolute()


def open_workspace(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Workspace:
    """What `environ` and the `burst.yaml` at or above `cwd` name; by default this process's.

    The home is made if it is not there, readable by its owner only. If it was moved or copied
    since it was opened last, its records learn of that.

    Raises:
        BurstError: the home cannot be made or written.
        ConfigError: `burst.yaml` is wrong.
        UsageError: a URL names no store or no blobs.
        Unreachable, StoreError: the store or the blobs cannot be opened.
        Unauthorized: the bucket's name needs the account's number, and AWS does not tell it.
    """
    environ = os.environ if environ is None else environ
    home = home_of(environ)
    make_home(home)
    named, blobs = environ.get("BURST_CLUSTER", ""), environ.get("BURST_BLOBS", "")
    if named.startswith(_IN_BLOBS):
        cluster = _published(open_blobs(blobs or f"file://{home}/blobs"), named)
    elif named:
        cluster = _load(Path(named))
    else:
        cluster = _cluster_of(Path.cwd() if cwd is None else cwd)
    store, blobs = state_urls(cluster, environ)
    store = store or f"sqlite://{home}/store.db"
    blobs = blobs or f"file://{home}/blobs"
    opened = open_store(store)
    if store.startswith(f"sqlite://{home}/"):
        settle_in(home, opened)
    return Workspace(home, cluster, opened, open_blobs(blobs))


def _published(blobs: Blobs, named: str) -> ClusterConfig:
    """The cluster file as it was published to the blobs."""
    from burst.core.config.load import parse_cluster

    try:
        text = blobs.get(named.removeprefix(_IN_BLOBS))
    except NotFound as error:
        raise NotFound(
            f"there is no cluster file {named}",
            why=f"BURST_CLUSTER names it, and {blobs.url} does not have it",
            mend="upload burst.yaml there, or name another in BURST_CLUSTER",
        ) from error
    return parse_cluster(text.decode(), named)


def _load(path: Path) -> ClusterConfig:
    from burst.core.config.load import load_cluster

    return load_cluster(path)


def make_home(home: Path) -> None:
    """Make the folder for state on this machine, readable by its owner only. Idempotent.

    Raises:
        BurstError: it cannot be made or written.
    """
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        home.mkdir(mode=0o700, exist_ok=True)
        (home / STATE_MARK).touch(mode=0o600)  # which also shows that it can be written
    except OSError as error:
        raise BurstError(
            f"cannot keep state in {home}",
            why=error.strerror or str(error),
            mend="set BURST_HOME to a folder that you can write",
        ) from error


def _cluster_of(cwd: Path) -> ClusterConfig:
    # Reading the file needs YAML and more, for which those who have none should not wait.
    if not any((folder / "burst.yaml").is_file() for folder in (cwd, *cwd.absolute().parents)):
        return ClusterConfig()
    from burst.core.config.load import find_cluster, load_cluster

    path = find_cluster(cwd)
    return load_cluster(path) if path else ClusterConfig()
