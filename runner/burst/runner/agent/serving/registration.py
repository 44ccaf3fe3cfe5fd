"""How a machine joins, and how it says goodbye: the agent's writes to its Node record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from burst.core.clock import Clock, SystemClock
from burst.core.config.cluster import LocalPool, PoolConfig, StaticPool
from burst.core.errors import BurstError, NotFound, Refused
from burst.core.ids import new_id
from burst.core.model import Event, Json, Lease, Node, Slot
from burst.core.model.placement import KEPT_UNTIL
from burst.core.states import Reason
from burst.core.store import update
from burst.core.store.port import Append, Delete, Put, Store, Write
from burst.core.workspace import Workspace
from burst.runner.agent.hardware.gpus import Gpu, list_gpus
from burst.runner.agent.hardware.machine import (
    check_machine,
    default_slots,
    facts_of,
    host_name,
    slots_for,
)
from burst.runner.agent.host import Host, Reclaim

_CLOCK = SystemClock()
_HOST = Host()


def pool_of(pools: Mapping[str, PoolConfig], name: str) -> PoolConfig:
    """The pool called `name`.

    Raises:
        NotFound: there is none.
    """
    if name not in pools:
        raise NotFound(
            f"there is no pool {name!r}",
            why=f"burst.yaml has {', '.join(sorted(pools))}",
            mend="name one of them, or add it under `pools` in burst.yaml",
        )
    return pools[name]


def join(ws: Workspace, pool: str, clock: Clock = _CLOCK) -> Node:
    """A new node of `pool` for this machine, in state launched; its agent registers it.

    Raises:
        NotFound: no such pool.
        Refused: the pool starts its own machines, or is full.
    """
    config = pool_of(ws.cluster.pools, pool)
    if not isinstance(config, LocalPool | StaticPool):
        raise Refused(
            f"a machine cannot join pool {pool!r} by itself",
            why=f"burst starts the nodes of a pool of kind {config.kind}",
            mend="use a pool of kind static",
        )
    if isinstance(config, StaticPool):
        _check_room(ws.store, pool, config.max_nodes)
        expected = config.slots_per_node
    else:
        expected = config.slots or default_slots()
    now = clock.now()
    node = Node(
        id=new_id("node", clock), pool=pool, expected_slots=expected, requested=now, launched=now
    )
    ws.store.commit(Put(node), Append(_event(node, "launched", f"{host_name()} joins", now)))
    return node.model_copy(update={"version": 1})


def _check_room(store: Store, pool: str, limit: int) -> None:
    if len(store.live(Node, pool)) >= limit:
        raise Refused(
            f"pool {pool!r} is full",
            why=f"it has its max_nodes of {limit}",
            mend="raise max_nodes in burst.yaml, or end the agent of another node",
        )


def register(ws: Workspace, node: str, clock: Clock = _CLOCK, host: Host = _HOST) -> Node:
    """Tell the store of this machine; the node is ready if nothing keeps it from training.

    A machine with problems is registered with them in its facts, and is not ready.

    Raises:
        NotFound: no such node.
        Refused: the node is gone.
    """
    found = ws.store.get(Node, node)
    if found.gone is not None:
        raise Refused(
            f"node {node} is gone",
            why=str(found.gone_reason or "it was given back"),
            mend="start an agent without --node; it joins as a new node",
        )
    gpus, trouble = _gpus()
    if not trouble and 0 < len(gpus) < found.expected_slots and not _is_local(ws, found.pool):
        trouble = f"{found.expected_slots} GPUs were expected and {len(gpus)} are there"
    problems = [*check_machine(ws.home, ws.blobs, gpus_missing=trouble), *host.problems()]
    slots = slots_for(gpus, found.expected_slots)
    facts = {**_facts(gpus, ws.home, problems), **host.facts()}

    def change(record: Node) -> Sequence[Write]:
        return _registered(record, slots, facts, clock.now())

    return update(ws.store, Node, node, change, clock=clock)


def _registered(
    record: Node, slots: tuple[Slot, ...], facts: dict[str, Json], now: float
) -> tuple[Write, ...]:
    problems = facts["problems"]
    changed = record.model_copy(
        update={
            "host": host_name(),
            "slots": slots,
            "facts": {**record.facts, **facts} if problems else facts,
            "launched": record.launched or now,
            "registered": record.registered or now,
            "ready": None if problems else record.ready or now,
            "idle_since": now,
        }
    )
    if problems:
        return Put(changed), Append(_event(changed, "unfit", "; ".join(problems), now))
    return Put(changed), Append(_event(changed, "ready", f"{len(slots)} slots", now))


def _is_local(ws: Workspace, pool: str) -> bool:
    return isinstance(ws.cluster.pools.get(pool), LocalPool)


def _gpus() -> tuple[tuple[Gpu, ...], str]:
    try:
        return list_gpus(), ""
    except OSError as error:
        return (), f"nvidia-smi: {error}"


def _facts(gpus: Sequence[Gpu], home: Path, problems: list[str]) -> dict[str, Json]:
    return {**facts_of(gpus, home), "problems": problems}


def was_here(node: Node, ws: Workspace) -> bool:
    """Whether the node's last agent ran on this machine with this home: then it held the lock
    that its successor holds now, so it is dead."""
    return node.host == host_name() and node.facts.get("home") == str(ws.home)


def set_idle_since(store: Store, node: str, since: float | None, clock: Clock) -> None:
    """Note since when the node has no work; None while it has some."""

    def change(record: Node) -> Node | None:
        if record.idle_since == since:
            return None
        return record.model_copy(update={"idle_since": since})

    update(store, Node, node, change, clock=clock)


def begin_leaving(store: Store, node: str, reason: Reason, clock: Clock) -> Node:
    """Take no more work: from here on the node is draining. Idempotent."""

    def change(record: Node) -> Sequence[Write] | None:
        if record.draining is not None or record.gone is not None:
            return None
        now = clock.now()
        changed = record.model_copy(update={"draining": now, "cordoned": record.cordoned or now})
        return Put(changed), Append(_event(changed, "draining", str(reason), now))

    return update(store, Node, node, change, clock=clock)


def note_notice(store: Store, node: str, reclaim: Reclaim, clock: Clock) -> Node:
    """Say that the machine will be taken away: from here on the node is draining. Idempotent."""

    def change(record: Node) -> Sequence[Write] | None:
        if record.gone is not None or record.reclaim_at == reclaim.at:
            return None
        now = clock.now()
        dates = {
            "noticed": record.noticed or reclaim.heard,
            "reclaim_at": reclaim.at,
            "cordoned": record.cordoned or now,
            "draining": record.draining or now,
        }
        changed = record.model_copy(update=dates)
        return Put(changed), Append(_event(changed, "noticed", reclaim.text, now))

    return update(store, Node, node, change, clock=clock)


def note_rebalance(store: Store, node: str, at: float, clock: Clock) -> None:
    """Say that it was recommended to move away. Nobody does for that alone; it is only told."""
    found = store.get(Node, node)
    text = "the machine is at a higher risk of being taken away"
    store.commit(Append(_event(found, "rebalance", text, at)))


def keep(store: Store, node: str, allocation: str, seconds: float, clock: Clock) -> Node:
    """Give the node no more work, and say until when it stays to be looked at."""

    def change(record: Node) -> Sequence[Write]:
        now = clock.now()
        facts = {**record.facts, KEPT_UNTIL: now + seconds}
        changed = record.model_copy(update={"cordoned": record.cordoned or now, "facts": facts})
        text = f"kept for {seconds:g} s to be looked at: {allocation} failed"
        return Put(changed), Append(_event(changed, "kept", text, now))

    return update(store, Node, node, change, clock=clock)


def note_problem(store: Store, node: str, problem: str, clock: Clock) -> None:
    """Add to the node's problems. Idempotent."""

    def change(record: Node) -> Sequence[Write] | None:
        problems = list(record.facts.get("problems", []))
        if problem in problems:
            return None
        facts = {**record.facts, "problems": [*problems, problem]}
        changed = record.model_copy(update={"facts": facts})
        return Put(changed), Append(_event(changed, "unfit", problem, clock.now()))

    update(store, Node, node, change, clock=clock)


def leave(ws: Workspace, node: str, lease: Lease | None, reason: Reason, clock: Clock) -> None:
    """The agent's last write. Idempotent.

    Where the machine is not burst's to end (local, static), the node is gone and its lease with
    it; elsewhere it is terminating, and gone only when its pool says so.
    """
    pool = ws.cluster.pools.get(ws.store.get(Node, node).pool)
    ends_here = pool is None or isinstance(pool, LocalPool | StaticPool)

    def change(record: Node) -> Sequence[Write] | None:
        if record.gone is not None or (record.terminating is not None and not ends_here):
            return None
        now = clock.now()
        dates = {"draining": record.draining or now, "terminating": record.terminating or now}
        # One that never was fit stays on record until its pool has counted it as a failed start.
        failed = record.ready is None and isinstance(pool, LocalPool)
        if failed or not ends_here:
            changed = record.model_copy(update=dates)
            return Put(changed), Append(_event(changed, "terminating", str(reason), now))
        changed = record.model_copy(update={**dates, "gone": now, "gone_reason": reason})
        return Put(changed), Append(_event(changed, "gone", str(reason), now))

    update(ws.store, Node, node, change, clock=clock)
    if lease is not None:
        try:
            ws.store.commit(Delete(lease))
        except BurstError:
            return  # someone revoked it meanwhile; a lease of a node that is gone means nothing


def _event(node: Node, name: str, text: str, at: float) -> Event:
    return Event(subject=node.id, name=f"node.{name}", text=text, at=at, data={"pool": node.pool})
