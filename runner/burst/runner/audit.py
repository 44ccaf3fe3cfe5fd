"""Everything that carries the cluster's tags, who answers for it, and what is to be done about it.

What is listed first is what the cloud has, by tag alone; then the records are read. So it can be
run when nothing is known any more, and nothing is called clean that nobody has looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from burst.core.blobs.port import Blobs
from burst.core.errors import BurstError
from burst.core.model import Node
from burst.core.units import format_duration
from burst.core.workspace import Workspace
from burst.runner.pools.port import Leftover, Machine, Pool

GRACE_S = 90.0
"""A machine younger than this may belong to an answer that is still being taken in."""
BLOBS = "(blobs)"
"""Stands for a pool where something is no pool's."""
LEFTOVER_GRACE_S = 600.0
"""Disks, interfaces and groups outlive their machine for a while by themselves."""


class Verdict(StrEnum):
    OWNED = "owned"  # a live record answers for it
    YOUNG = "young"  # a record of it may be about to be written
    STRAY = "stray"  # nobody answers for it: the sweeper ends it
    UNKNOWN = "unknown"  # it could not be looked at


@dataclass(frozen=True)
class Found:
    """One tagged thing."""

    pool: str
    kind: str
    """`machine`, `volume`, …"""
    id: str
    launch: str
    owner: str
    """The id of its node; empty if it has none."""
    age: float | None
    """Seconds, by the cloud's clock."""
    verdict: Verdict
    will: str
    """What will be done about it, in words."""

    @property
    def explained(self) -> bool:
        return self.verdict in (Verdict.OWNED, Verdict.YOUNG)


def audit(ws: Workspace, pools: Mapping[str, Pool]) -> list[Found]:
    """Look at every pool, and at the blobs. What does not answer is a finding of its own."""
    store = ws.store
    found = _uploads(ws.blobs)
    for name, pool in pools.items():
        try:
            machines, leftovers = pool.machines(), pool.leftovers()
        except BurstError as error:
            found.append(_unknown(name, error))
            continue
        nodes = store.live(Node, name) if machines or leftovers else []
        found += [judge_machine(name, machine, nodes) for machine in machines]
        found += [judge_leftover(name, leftover, nodes) for leftover in leftovers]
    return found


def _uploads(blobs: Blobs) -> list[Found]:
    """Uploads that no writer will finish, which are paid for and show as no blob."""
    try:
        unfinished = blobs.unfinished()
    except BurstError as error:
        return [_unknown(BLOBS, error)]
    will = "no writer is at it any more: it is discarded"
    return [
        Found(BLOBS, "upload", each.key, "", "", each.age, verdict=Verdict.STRAY, will=will)
        for each in unfinished
    ]


def judge_machine(pool: str, machine: Machine, nodes: Iterable[Node]) -> Found:
    """Whether a record answers for the machine. Pure.

    Args:
        nodes: all of the pool that are not gone, read after the machine was listed.
    """
    nodes = list(nodes)
    mine = [node for node in nodes if machine.id in (node.id, node.handle.get("instance"))]
    free = [node for node in nodes if _awaits(node, machine.launch)]
    if mine:
        owner = min(mine, key=lambda node: node.id)
        return _found(pool, machine, Verdict.OWNED, _plans_for(owner), owner.id)
    if free:
        will = f"it becomes one of the nodes of its request {machine.launch}"
        return _found(pool, machine, Verdict.OWNED, will)
    if machine.age is None or machine.age < GRACE_S:
        will = f"it is ended at an age of {format_duration(GRACE_S)} if no record comes"
        return _found(pool, machine, Verdict.YOUNG, will)
    return _found(pool, machine, Verdict.STRAY, "no record answers for it: it is ended")


def judge_leftover(pool: str, leftover: Leftover, nodes: Iterable[Node]) -> Found:
    """Whether something that is no machine is still needed. Pure."""
    mine = [node for node in nodes if leftover.launch and node.launch == leftover.launch]
    if mine:
        will = f"it goes with the nodes of its request {leftover.launch}"
        return _rest(pool, leftover, Verdict.OWNED, will, min(node.id for node in mine))
    if leftover.age is not None and leftover.age < LEFTOVER_GRACE_S:
        will = f"it is deleted at an age of {format_duration(LEFTOVER_GRACE_S)}"
        return _rest(pool, leftover, Verdict.YOUNG, will)
    return _rest(pool, leftover, Verdict.STRAY, "no machine uses it: it is deleted")


def unexplained(found: Sequence[Found]) -> list[Found]:
    return [each for each in found if not each.explained]


def _awaits(node: Node, launch: str) -> bool:
    return bool(node.launch) and node.launch == launch and not node.handle


def _plans_for(node: Node) -> str:
    if node.terminating is not None:
        return "it is being ended"
    if node.draining is not None:
        return "it leaves when what runs there has left"
    return "it leaves when it has been idle"


def _found(pool: str, machine: Machine, verdict: Verdict, will: str, owner: str = "") -> Found:
    what = (pool, "machine", machine.id, machine.launch, owner, machine.age)
    return Found(*what, verdict=verdict, will=will)


def _rest(pool: str, leftover: Leftover, verdict: Verdict, will: str, owner: str = "") -> Found:
    what = (pool, leftover.kind, leftover.id, leftover.launch, owner, leftover.age)
    return Found(*what, verdict=verdict, will=will)


def _unknown(pool: str, error: BurstError) -> Found:
    will = f"it could not be looked at: {error.what}" + (f" ({error.why})" if error.why else "")
    kind = "blobs" if pool == BLOBS else "pool"
    return Found(pool, kind, pool, "", "", None, verdict=Verdict.UNKNOWN, will=will)
