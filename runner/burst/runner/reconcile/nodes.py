"""Nodes: watched, given up when they are gone, ended.

A machine that ends before it was ready is counted in its pool's book, so a pool whose machines
fail is asked ever more rarely, whoever asks, and in the end not at all where it costs money.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from burst.core.config.cluster import AwsPool
from burst.core.errors import BurstError
from burst.core.model import Event, Lease, Node
from burst.core.states import Reason
from burst.core.store import is_local
from burst.core.store.port import Append, Put
from burst.runner.pools.port import Liveness
from burst.runner.reconcile.allocations import lose_allocations
from burst.runner.reconcile.context import Context, Looked, View, supply_of
from burst.runner.reconcile.notes import note, note_failed, note_gone, note_withdrawn
from burst.runner.supply import EVERY_OFFER, after_ready

log = logging.getLogger(__name__)

LEAVE_WITHIN_S = 60.0
"""A node without work that was told to leave is ended after this."""
LOOK_EVERY_S = 1.0
LOOK_REMOTE_EVERY_S = 5.0
"""The same, where each pass is paid for. What happens meanwhile is seen by its events."""
OLD_FOR_S = 900.0
"""A node this much older than its pool allows is ended, whatever it does."""


def reconcile_nodes(ctx: Context, view: View) -> float | None:
    """Look at every node that is not gone and that this runner acts for. Returns seconds until the
    next look is due."""
    known = [node for node in view.nodes if ctx.acts_for(node.pool)]
    ctx.observer.forget_all_but({node.id for node in known})
    busy = {share.node for each in view.allocations for share in each.shares}
    expired = _expired(ctx, [node.id for node in known if node.registered is not None])
    for name in sorted({node.pool for node in known}):
        started = [node for node in known if node.pool == name and node.launched is not None]
        found = observed(ctx, name, started)
        for node in started:
            alive = found.get(node.id, Liveness.UNKNOWN)
            ctx.attempt(partial(_look, ctx, view, node, alive, node.id in busy, expired))
    if not known:
        return None
    return LOOK_EVERY_S if is_local(ctx.store) else LOOK_REMOTE_EVERY_S


def observed(ctx: Context, pool: str, nodes: Sequence[Node]) -> Mapping[str, Liveness]:
    """What the pool says of them, asked no more often than its API bears. What cannot be observed
    stays unknown, which ends nothing."""
    now, last = ctx.clock.monotonic(), ctx.looked.get(pool)
    if last is not None and now - last.at < ctx.pool(pool).look_every:
        return last.found
    found: dict[str, Liveness] = {}
    ctx.attempt(lambda: found.update(ctx.pool(pool).observe(nodes)))
    ctx.looked[pool] = Looked(now, found)
    return found


def _expired(ctx: Context, nodes: Sequence[str]) -> Collection[str] | None:
    """Those whose leases have run out by now, when they are read: a pool may take a minute to
    answer, in which they are renewed. One request for all, as this is asked every second; None
    where there was no answer."""
    asked = ctx.clock.monotonic()
    try:
        leases = ctx.store.find_many(Lease, nodes)
    except BurstError as error:
        log.warning("%s", error)
        ctx.observer.begin_anew()
        ctx.failed = True
        return None
    return {id for id in nodes if ctx.observer.expired(id, leases.get(id), asked)}


def _look(
    ctx: Context,
    view: View,
    node: Node,
    alive: Liveness,
    busy: bool,
    expired: Collection[str] | None,
) -> None:
    if alive is Liveness.DEAD:
        _bury(ctx, view, node)
        return
    if node.registered is None:
        _hurry(ctx, node)
        return
    if node.ready is not None:
        _count_as_ready(ctx, view, node)
    if expired is None:
        return
    if node.id in expired:
        _give_up(ctx, view, ctx.store.get(Node, node.id))
        return
    now = ctx.clock.now()
    if node.terminating is not None:
        ctx.pool(node.pool).terminate(node)
    elif node.draining is not None and not busy and now - node.draining > LEAVE_WITHIN_S:
        _end(ctx, node, Reason(code="slow", text="it was told to leave and did not"))
    elif why := _why_it_leaves(ctx, node, busy):
        _retire(ctx, node, why)
    elif node.ready is not None and not busy and node.idle_since is None:
        ctx.commit(Put(node.model_copy(update={"idle_since": now})))


def _bury(ctx: Context, view: View, node: Node) -> None:
    """The machine is gone for certain: what is left of it is ended, its work goes on elsewhere."""
    ctx.pool(node.pool).terminate(node)
    if node.ready is None:
        refusals = ctx.pool(node.pool).withdrawn(node)
        if refusals or node.noticed is not None:
            note_withdrawn(ctx, node, refusals)
        else:
            note_failed(ctx, node, _why_never_ready(ctx, node))
        return
    left = node.draining is not None or node.terminating is not None
    if left:
        reason = Reason(code="left", text="it has left")
    else:
        reason = Reason(code="dead", text="its agent has died")
    if node.noticed is not None:
        reason = Reason(code="reclaimed", text="it was taken away, as a notice had said")
    if lose_allocations(ctx, view, node, reason):
        note_gone(ctx, node, reason)


def _why_never_ready(ctx: Context, node: Node) -> str:
    problems = "; ".join(node.facts.get("problems") or ())
    if problems or node.gone_reason is not None:
        return problems or str(node.gone_reason)
    when = "had registered" if node.registered is None else "was ready"
    said = _console(ctx, node)
    return f"its agent ended before it {when}" + (said and f"; {said}")


def _console(ctx: Context, node: Node) -> str:
    try:
        return ctx.pool(node.pool).console(node)
    except BurstError as error:
        log.debug("no console of node %s: %s", node.id, error.what)
        return ""


def _count_as_ready(ctx: Context, view: View, node: Node) -> None:
    """Failures of its pool are in a row no more."""
    supply = view.supplies[node.pool]
    last = supply.refusals.get(EVERY_OFFER)
    since = node.ready is not None and (last is None or node.ready > last.at)
    if supply.failures and supply.stopped is None and since:
        ctx.commit(Put(after_ready(supply_of(ctx.store, node.pool))))


def _give_up(ctx: Context, view: View, node: Node) -> None:
    """Its lease has ended: whether or not the machine is there, nothing that it writes counts.
    One that has left gave its lease back, and ends as it said."""
    reason = Reason(code="lease", text="its agent was not heard of for the length of its lease")
    if not lose_allocations(ctx, view, node, reason):
        return
    if node.terminating is not None and (node.handle or ctx.costs(node.pool)):
        ctx.pool(node.pool).terminate(node)
    elif node.handle:
        _end(ctx, node, reason)
    else:
        # Nobody here started this machine, so nobody here can end it or is billed for it.
        note_gone(ctx, node, reason)


def _hurry(ctx: Context, node: Node) -> None:
    waited = ctx.clock.now() - (node.launched or node.requested)
    limits = ctx.pool(node.pool).limits if ctx.is_gone(node.pool) else ctx.limits.get(node.pool)
    within = limits.boot_within if limits is not None else math.inf
    if node.terminating is not None:
        ctx.pool(node.pool).terminate(node)
    elif waited > within and ctx.store.get(Node, node.id).registered is None:
        text = f"its agent did not register within {within:g} s"
        said = _console(ctx, node)
        _end(ctx, node, Reason(code="silent", text=text + (said and f"; {said}")))


def _why_it_leaves(ctx: Context, node: Node, busy: bool) -> str:
    """Why it is told to leave, apart from being idle; empty where it is not."""
    if _is_too_old(ctx, node):
        return "it has lived as long as its pool lets a node live"
    free = not busy and node.ready is not None and node.cordoned is None
    if free and ctx.is_gone(node.pool):
        return f"the cluster file has no pool {node.pool} any more"
    return ""


def _is_too_old(ctx: Context, node: Node) -> bool:
    config = ctx.cluster.pools.get(node.pool)
    age = ctx.clock.now() - (node.launched or node.requested)
    return isinstance(config, AwsPool) and age > config.max_life


def _retire(ctx: Context, node: Node, why: str) -> None:
    """It drains, and then it is ended."""
    now = ctx.clock.now()
    if node.draining is None:
        dates = {"draining": now, "cordoned": node.cordoned or now}
        event = Event(
            subject=node.id, name="node.draining", text=why, at=now, data={"pool": node.pool}
        )
        ctx.commit(Put(node.model_copy(update=dates)), Append(event))
    elif now - node.draining > OLD_FOR_S:
        _end(ctx, node, Reason(code="old", text="it is older than its pool allows"))


def _end(ctx: Context, node: Node, reason: Reason) -> None:
    """End the machine. The node is gone only when its pool says that it is dead."""
    if node.terminating is None:
        now = ctx.clock.now()
        note(ctx, node, "terminating", reason, terminating=now, gone_reason=reason)
    ctx.pool(node.pool).terminate(node)
