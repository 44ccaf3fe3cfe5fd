"""What trials left in node-local tiers that are over, or went on elsewhere."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

from burst.core.checkpoints.format.manifest import Damaged, Manifest
from burst.core.checkpoints.tiers.rules import is_leftover
from burst.core.errors import BurstError
from burst.core.model import Allocation, Checkpoint, Node, Trial
from burst.core.states import is_terminal
from burst.core.store.port import Store
from burst.core.workspace import Workspace
from burst.runner.agent.machine import host_name
from burst.runner.agent.storage import local_folders

log = logging.getLogger(__name__)


def clear_tiers(ws: Workspace) -> int:
    """Remove from this machine's disk the checkpoints that no trial will look for here; returns
    the bytes freed. Idempotent.

    What cannot be judged stays: trials of another store, those that run on this machine, and,
    while a manifest cannot be read, everything beside it.
    """
    freed = 0
    for root in local_folders(ws.home):
        try:
            freed += _clear(ws.store, root)
        except (BurstError, OSError) as error:
            log.warning("what old trials left in %s stays: %s", root, error)
    if freed:
        log.info("removed %d bytes of checkpoints of trials that are not here any more", freed)
    return freed


def _clear(store: Store, root: Path) -> int:
    folders = list(_folders(root / "checkpoints"))
    leftover = [folder for folder in folders if _is_leftover(store, folder)]
    if not leftover:
        return 0
    needed = _named_by(root, [folder for folder in folders if folder not in leftover])
    return sum(_remove(folder, needed) for folder in leftover)


def _is_leftover(store: Store, folder: Path) -> bool:
    trial = store.find(Trial, folder.name)
    if trial is None or _runs_here(store, trial):
        return False
    held = {path.parent.name for path in folder.glob("*/manifest.json")}
    return is_leftover(is_terminal(trial.state), store.children(Checkpoint, trial.id), held)


def _runs_here(store: Store, trial: Trial) -> bool:
    """Whether a live attempt of it is on this machine, as whatever node."""
    if is_terminal(trial.state):
        return False
    live = [each for each in store.children(Allocation, trial.id) if each.live]
    nodes = [store.find(Node, share.node) for each in live for share in each.shares]
    return any(node is None or node.host in ("", host_name()) for node in nodes)


def _named_by(root: Path, folders: list[Path]) -> set[Path]:
    """The files that the checkpoints in `folders` name, wherever they lie."""
    needed: set[Path] = set()
    for folder in folders:
        for path in folder.glob("*/manifest.json"):
            try:
                manifest = Manifest.decode(path.read_bytes())
            except FileNotFoundError:
                continue
            except Damaged as error:
                raise Damaged(f"{path} cannot be read", why=error.what) from error
            needed.update(root / entry.key for entry in manifest.files)
    return needed


def _remove(folder: Path, needed: set[Path]) -> int:
    """Remove a trial's folder, but for the files that other trials' checkpoints name."""
    freed = 0
    for checkpoint in _folders(folder):
        # The manifest first: without it, the rest is no checkpoint to anyone.
        manifest = checkpoint / "manifest.json"
        others = [path for path in sorted(checkpoint.iterdir()) if path != manifest]
        for path in [manifest, *others]:
            if path not in needed and path.is_file():
                freed += path.stat().st_size
                path.unlink(missing_ok=True)
        if not any(checkpoint.iterdir()):
            checkpoint.rmdir()
    if not any(folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)
    return freed


def _folders(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(path for path in folder.iterdir() if path.is_dir())
    except FileNotFoundError:
        return
