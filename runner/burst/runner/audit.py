"""Everything that carries the cluster's tags, who answers for it, and what is to be done about it.

What is listed first is what the cloud has, by tag alone; then the records are read. So it can be
run when nothing is known any more, and nothing is called clean that nobody has looked at. All are
asked at once, and one that is silent keeps nobody waiting for the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TypeVar

from burst.core.blobs.port import Blobs, Unfinished
from burst.core.config.cluster import AwsPool, ClusterConfig
from burst.core.errors import BurstError, Unreachable
from burst.core.model import Node
from burst.core.retrying import patience
from burst.core.states import NodeState
from burst.core.units import format_duration
from burst.core.workspace import Workspace
from burst.runner.pools.port import Gone, Leftover, Machine, Pool

T = TypeVar("T")
_Has = tuple[Sequence[Machine], Sequence[Leftover]]

WITHIN_S = 15.0
"""Whoever has not answered by then is not waited for."""
_TRIED_FOR_S = 8.0
"""Nothing is tried again that would begin later, so that most of it has ended by then."""
GRACE_S = 90.0
"""A machine younger than this may belong to an answer that is still being taken in."""
BLOBS = "(blobs)"
STORE = "(store)"
GONE = "(others)"
"""Stand for a pool where something is no pool's."""
LEFTOVER_GRACE_S = 600.0
"""Disks, interfaces and groups outlive their machine for a while by themselves."""
_UNREAD = "its record could not be read; no runner ends it before that"


class Verdict(StrEnum):
    OWNED = "owned"  # a live record answers for it
    YOUNG = "young"  # a record of it may be about to be written
    STRAY = "stray"  # nobody answers for it: the sweeper ends it
    STOPPED = "stopped"  # it should act, and a person has to start it
    UNKNOWN = "unknown"  # it could not be looked at


@dataclass(frozen=True)
class Found:
    """One tagged thing."""

    pool: str
    kind: str
    """`machine`, `volume`, …; `pool`, `blobs` or `store` for what could not be looked at."""
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


def audit(
    ws: Workspace,
    pools: Mapping[str, Pool],
    gone: Gone | None = None,
    *,
    within: float = WITHIN_S,
) -> list[Found]:
    """Look at every pool, at the blobs, and whether the store answers.

    What does not answer is a finding of its own. Where that is the store, all that is tagged is
    listed nevertheless, with nobody known to answer for it.

    Args:
        gone: finds what is of pools that the cluster file does not have any more.
        within: seconds after which nobody's answer is waited for any more.
    """
    until = time.monotonic() + within
    store = ask_aside(ws.store.newest_cursor)
    uploads = ask_aside(ws.blobs.unfinished)
    asked = {name: ask_aside(partial(_all_of, pool)) for name, pool in pools.items()}
    others = ask_aside(partial(_all_of_gone, gone))
    found = _uploads(ws.blobs, uploads, until)
    has: list[tuple[str, bool, _Has]] = []
    for name, look in asked.items():
        try:
            has.append((name, False, answer_of(look, until)))
        except BurstError as error:
            found.append(_unknown(name, "pool", name, error))
    try:
        has += [(name, True, each) for name, each in answer_of(others, until).items()]
    except BurstError as error:
        found.append(_unknown(GONE, "pool", GONE, error))
    try:
        answer_of(store, until)
        with patience(max(1.0, until - time.monotonic())):
            nodes = ws.store.live(Node) if any(any(each) for *_, each in has) else []
    except BurstError as error:
        found.insert(0, _unknown(STORE, "store", ws.store.url, error))
        for name, _, (machines, leftovers) in has:
            found += [_found(name, each, Verdict.UNKNOWN, _UNREAD) for each in machines]
            found += [_rest(name, each, Verdict.UNKNOWN, _UNREAD) for each in leftovers]
        return found
    for name, is_gone, (machines, leftovers) in has:
        own = [node for node in nodes if node.pool == name]
        least = None if is_gone else _min_nodes(ws.cluster, name)
        found += [judge_machine(name, machine, own, least) for machine in machines]
        found += [judge_leftover(name, leftover, own) for leftover in leftovers]
    return found


def _all_of(pool: Pool) -> _Has:
    return pool.machines(), pool.leftovers()


def _all_of_gone(gone: Gone | None) -> Mapping[str, _Has]:
    names = sorted(gone.names(leftovers=True)) if gone is not None else []
    return {name: _all_of(gone.pool(name)) for name in names} if gone is not None else {}


def _uploads(blobs: Blobs, look: Future[Sequence[Unfinished]], until: float) -> list[Found]:
    """Uploads that no writer will finish, which are paid for and show as no blob."""
    try:
        unfinished = answer_of(look, until)
    except BurstError as error:
        return [_unknown(BLOBS, "blobs", blobs.url, error)]
    will = "no writer is at it any more: it is discarded"
    return [
        Found(BLOBS, "upload", each.key, "", "", each.age, verdict=Verdict.STRAY, will=will)
        for each in unfinished
    ]


def _min_nodes(cluster: ClusterConfig, pool: str) -> int:
    config = cluster.pools.get(pool)
    return config.min_nodes if isinstance(config, AwsPool) else 0


def ask_aside(ask: Callable[[], T]) -> Future[T]:
    """Ask in a thread of its own, which a process that ends does not wait for."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            with patience(_TRIED_FOR_S):
                answer.set_result(ask())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer


def answer_of(asked: Future[T], until: float) -> T:
    """
    Raises:
        Unreachable: there is none yet.
        BurstError: what was raised instead of one.
    """
    try:
        return asked.result(max(0.0, until - time.monotonic()))
    except TimeoutError:
        raise Unreachable("there was no answer in time") from None


def judge_machine(
    pool: str, machine: Machine, nodes: Iterable[Node], min_nodes: int | None = 0
) -> Found:
    """Whether a record answers for the machine. Pure.

    Args:
        nodes: all of the pool that are not gone, read after the machine was listed.
        min_nodes: how many of them stay without work; None for a pool that the cluster file does
            not have any more.
    """
    nodes = list(nodes)
    mine = [node for node in nodes if machine.id in (node.id, node.handle.get("instance"))]
    free = [node for node in nodes if _awaits(node, machine.launch)]
    if mine:
        owner = min(mine, key=lambda node: node.id)
        return _found(pool, machine, Verdict.OWNED, _plans_for(owner, nodes, min_nodes), owner.id)
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


def _plans_for(node: Node, nodes: Sequence[Node], min_nodes: int | None) -> str:
    if node.terminating is not None:
        return "it is being ended"
    if node.draining is not None:
        return "it leaves when what runs there has left"
    if node.kept_until is not None:
        date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(node.kept_until))
        return f"it is kept until {date} to be looked at, and then leaves"
    if min_nodes is None:
        what = f"pool {node.pool} is not in burst.yaml any more"
        return f"{what}: it leaves when what runs there has ended"
    ready = sorted(each.id for each in nodes if each.state is NodeState.READY)
    if node.id in ready[:min_nodes]:
        return "it stays without work, too: it is one of the pool's min_nodes"
    return "it leaves when it has been idle"


def _found(pool: str, machine: Machine, verdict: Verdict, will: str, owner: str = "") -> Found:
    what = (pool, "machine", machine.id, machine.launch, owner, machine.age)
    return Found(*what, verdict=verdict, will=will)


def _rest(pool: str, leftover: Leftover, verdict: Verdict, will: str, owner: str = "") -> Found:
    what = (pool, leftover.kind, leftover.id, leftover.launch, owner, leftover.age)
    return Found(*what, verdict=verdict, will=will)


def _unknown(pool: str, kind: str, id: str, error: BurstError) -> Found:
    will = f"it could not be looked at: {error.what}" + (f" ({error.why})" if error.why else "")
    return Found(pool, kind, id, "", "", None, verdict=Verdict.UNKNOWN, will=will)
