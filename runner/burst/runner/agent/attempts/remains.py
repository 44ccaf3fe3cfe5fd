"""What dead agents of this machine left: processes to end, logs to ship, folders to remove."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from burst.core.clock import Clock
from burst.core.config.experiment import ExperimentConfig
from burst.core.errors import BurstError
from burst.core.launch import LaunchSpec
from burst.core.workspace import Workspace
from burst.runner.agent.attempts.shipping import Shipper
from burst.runner.agent.locks import FileLock
from burst.runner.agent.running.environment import resolve_secrets
from burst.runner.agent.running.sweep import sweep
from burst.runner.agent.site import nodes_folder

log = logging.getLogger(__name__)

LOCK = "agent.lock"
_KEEP_S = 86_400.0
"""How long the own log of an agent that ended badly stays."""


def clear_remains(ws: Workspace, own: str, clock: Clock) -> None:
    """End what agents that are dead had started here, and keep of it only the logs.

    An agent is dead if nobody holds the lock in its node's folder. `own` is the node of the
    caller, who holds that lock itself. Old ranks are never adopted: their trial goes on from its
    checkpoint. Idempotent; what cannot be shipped now is left for the next agent.
    """
    for folder in _folders(nodes_folder(ws.home)):
        if folder.name == own:
            _clear(ws, folder, clock)
            continue
        if not any(_folders(folder)) and not _is_old(folder):
            continue  # of an agent that just begins, or one with no more than its own log
        lock = FileLock(folder / LOCK)
        if lock.try_take():
            try:
                _clear(ws, folder, clock)
                forget_folder(folder)
            finally:
                lock.release()


def ship_remains(ws: Workspace, own: str, clock: Clock, seconds: float) -> bool:
    """Ship what the agent's own attempts left, on a machine that no other agent comes to.

    Tries for `seconds`; whether all of it is in the blobs.
    """
    folder = nodes_folder(ws.home) / own
    until = clock.monotonic() + seconds
    while True:
        _clear(ws, folder, clock)
        if not any(_folders(folder)):
            return True
        if clock.monotonic() >= until:
            log.warning("the last lines of logs of %s could not be shipped", own)
            return False
        clock.sleep(1.0)


def _is_old(folder: Path) -> bool:
    try:
        return time.time() - folder.stat().st_mtime > _KEEP_S
    except OSError:
        return False


def forget_folder(folder: Path) -> None:
    """Remove a node's folder, but not what has yet to be shipped. The caller has its lock."""
    if not any(_folders(folder)):
        shutil.rmtree(folder, ignore_errors=True)


def _clear(ws: Workspace, node: Path, clock: Clock) -> None:
    attempts = list(_folders(node))
    killed = sweep(tuple(attempt.name for attempt in attempts), below=node)
    if killed:
        log.info("ended %d processes that an earlier agent had left", killed)
    for attempt in attempts:
        if _ship_rest(ws, attempt, clock):
            shutil.rmtree(attempt, ignore_errors=True)


def _ship_rest(ws: Workspace, folder: Path, clock: Clock) -> bool:
    """Ship what the attempt wrote after its agent's last look; whether it is all shipped."""
    try:
        spec = LaunchSpec.model_validate_json((folder / "spec.json").read_bytes())
        secrets = ExperimentConfig.model_validate(spec.config).environment.secrets
        values = resolve_secrets(secrets, os.environ)
    except (OSError, ValueError, BurstError) as error:
        log.warning("leaving out the rest of the logs of %s: %s", folder.name, error)
        return True  # its secrets could not be masked
    shipper = Shipper(
        ws.blobs,
        folder,
        spec.trial,
        spec.attempt,
        tuple(values.values()),
        node_rank=spec.node_rank,
        clock=clock,
    )
    return shipper.ship(final=True)


def _folders(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(path for path in folder.iterdir() if path.is_dir())
    except FileNotFoundError:
        return
