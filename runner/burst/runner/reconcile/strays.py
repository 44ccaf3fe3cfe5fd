"""Machines that no record accounts for, found by their tags and ended.

The machines are listed before the records are read: a record is written before its machine is
asked for, so whatever was listed has one by then, unless nobody will ever write it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from burst.core.model import Event, Node
from burst.core.store.port import Append
from burst.runner.pools.port import Machine
from burst.runner.reconcile.context import Context, View

log = logging.getLogger(__name__)

GRACE_S = 90.0
"""A machine younger than this may belong to an answer that is still being taken in."""
SWEEP_EVERY_S = 30.0


@dataclass(frozen=True)
class Account:
    """Who a machine belongs to, and what is to be done about it."""

    machine: Machine
    owner: str
    """The id of its node; empty if there is none."""
    stray: bool
    """Whether it is to be ended."""
    why: str


def account_for(machine: Machine, nodes: Iterable[Node]) -> Account:
    """Whether a record accounts for the machine. Pure.

    Args:
        nodes: all that are not gone.
    """
    mine = [node for node in nodes if machine.id in (node.id, node.handle.get("instance"))]
    if mine:
        return Account(machine, mine[0].id, stray=False, why=f"it is node {mine[0].id}")
    free = [n for n in nodes if n.launch and n.launch == machine.launch and not n.handle]
    if free:
        return Account(machine, "", stray=False, why=f"its request {machine.launch} has nodes yet")
    if machine.age is None or machine.age < GRACE_S:
        return Account(machine, "", stray=False, why=f"it is younger than {GRACE_S:g} s")
    return Account(machine, "", stray=True, why="no record accounts for it")


def reconcile_strays(ctx: Context, view: View) -> float | None:
    """End the machines of every pool that are nobody's. Returns seconds until the next look."""
    now = ctx.clock.monotonic()
    costly = [name for name, pool in ctx.pools.items() if pool.limits.costs]
    for name in costly:
        if now - ctx.swept_at.get(name, -SWEEP_EVERY_S) >= SWEEP_EVERY_S:
            ctx.attempt(partial(_sweep, ctx, name))
            ctx.swept_at[name] = now
    return SWEEP_EVERY_S if costly and view.nodes else None


def accounts(ctx: Context, pool: str) -> Sequence[Account]:
    """Every machine of the pool with its owner."""
    machines = ctx.pools[pool].machines()
    nodes = ctx.store.live(Node, pool) if machines else []
    return [account_for(machine, nodes) for machine in machines]


def _sweep(ctx: Context, name: str) -> None:
    for each in accounts(ctx, name):
        if each.stray:
            ctx.attempt(partial(_end, ctx, name, each.machine))


def _end(ctx: Context, pool: str, machine: Machine) -> None:
    log.warning("machine %s of pool %s is nobody's, and is ended", machine.id, pool)
    ctx.pools[pool].end(machine)
    event = Event(
        subject=machine.id,
        name="machine.stray",
        text=f"no record accounts for machine {machine.id} of pool {pool}; it is ended",
        at=ctx.clock.now(),
        data={"pool": pool, "launch": machine.launch},
    )
    ctx.commit(Append(event))
