"""What trials left in node-local tiers that are over, or went on elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from burst.core.blobs import open_blobs
from burst.core.blobs.port import BlobInfo, Blobs
from burst.core.checkpoints.format.manifest import manifest_key, owner_of
from burst.core.checkpoints.removal.collect import Library, Reach, remains
from burst.core.checkpoints.removal.delete import finish_in
from burst.core.checkpoints.removal.evict import abandon
from burst.core.checkpoints.tiers.own_disk import local_folders
from burst.core.checkpoints.tiers.rules import is_leftover
from burst.core.clock import Clock, SystemClock
from burst.core.errors import BurstError
from burst.core.model import Allocation, Checkpoint, Node, Trial
from burst.core.states import is_terminal
from burst.core.store.port import Store
from burst.core.workspace import Workspace
from burst.runner.agent.hardware.machine import host_name

log = logging.getLogger(__name__)

_SYSTEM_CLOCK = SystemClock()


def clear_tiers(
    ws: Workspace,
    clock: Clock = _SYSTEM_CLOCK,
    opener: Callable[[str], Blobs] = open_blobs,
) -> int:
    """Remove from this machine's disk the checkpoints that are deleted, and those that no trial
    will look for here; returns the bytes freed. Idempotent, and once interrupted the next call
    goes on.

    What cannot be judged stays: trials of another store, and, while a manifest cannot be read,
    files that it may name. Of a trial that runs on this machine, only what is deleted goes.
    """
    freed = 0
    for root in local_folders(ws.home):
        if not (root / "checkpoints").is_dir():
            continue
        try:
            freed += _clear(ws.store, opener(f"file://{root}"), clock)
        except BurstError as error:
            log.warning("what old trials left in %s stays: %s", root, error)
    if freed:
        log.info("removed %d bytes of checkpoints that are not wanted here any more", freed)
    return freed


def _clear(store: Store, space: Blobs, clock: Clock) -> int:
    found: dict[str, list[BlobInfo]] = {}
    for blob in space.list("checkpoints/"):
        found.setdefault(owner_of(blob.key)[0], []).append(blob)
    freed = 0
    for trial, blobs in found.items():
        try:
            freed += _clear_trial(store, space, trial, blobs, clock)
        except BurstError as error:
            log.warning("what %s left in %s stays: %s", trial, space.url, error)
    return freed


def _clear_trial(store: Store, space: Blobs, id: str, found: list[BlobInfo], clock: Clock) -> int:
    trial = store.find(Trial, id)
    if trial is None:
        return 0
    records = store.children(Checkpoint, id)
    keys = {blob.key for blob in found}
    held = {owner_of(key)[1] for key in keys if key == manifest_key(*owner_of(key))}
    freed = 0
    over = is_terminal(trial.state)
    if (over or not _runs_here(store, trial)) and is_leftover(over, records, held):
        freed += abandon(space, store, id, _own_nodes(store, records), found, clock=clock)
    elif all(remains(record) for record in records if record.id in held):
        return 0
    return freed + finish_in(space, Library(Reach([space]), store), id)


def _runs_here(store: Store, trial: Trial) -> bool:
    """Whether a live attempt of it is on this machine, as whatever node."""
    live = [each for each in store.children(Allocation, trial.id) if each.live]
    return any(_is_this_machine(store, share.node) for each in live for share in each.shares)


def _own_nodes(store: Store, records: Collection[Checkpoint]) -> set[str]:
    """Of the nodes on whose disks checkpoints lie, those that this machine is or has been."""
    nodes = {copy.node for record in records for copy in record.copies if copy.node}
    return {node for node in nodes if _is_this_machine(store, node)}


def _is_this_machine(store: Store, id: str) -> bool:
    """What is not known of a node must not take its trial's files, nor leave a claim to them."""
    node = store.find(Node, id)
    return node is None or node.host in ("", host_name())
