"""Nodes: started after their intent is written, watched, given up when they are gone, ended.

A node that could not be started stays in the store for a while as the record of that, with the
date of the next try: a pool that says no is asked again ever more rarely, whoever asks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from burst.core.errors import BurstError, Refused
from burst.core.model import Event, Lease, Node
from burst.core.states import NodeState, Reason
from burst.core.store import update
from burst.core.store.port import Append, Put, Write
from burst.runner.pools.port import Liveness
from burst.runner.reconcile.allocations import lose_allocations
from burst.runner.reconcile.context import Context, View

log = logging.getLogger(__name__)

REGISTER_WITHIN_S = 120.0
"""A node that has not registered by then is ended and started anew."""
LEAVE_WITHIN_S = 60.0
"""A node without work that was told to leave is ended after this."""
LOOK_EVERY_S = 1.0
FAILED = "failed"
"""In a node's facts: how often in a row its pool could not start one."""
RETRY_AT = "retry_at"
PROBLEM = "problem"
_FIRST_RETRY_S = 3.0
_LONGEST_RETRY_S = 300.0
_FORGET_S = 60.0


def reconcile_nodes(ctx: Context, view: View) -> float | None:
    """Look at every node that is not gone. Returns seconds until the next look is due."""
    known = [node for node in view.nodes if node.pool in ctx.pools]
    ctx.observer.forget_all_but({node.id for node in known})
    busy = {share.node for each in view.allocations for share in each.shares}
    for name in sorted({node.pool for node in known}):
        nodes = [node for node in known if node.pool == name]
        started = [node for node in nodes if node.launched is not None and not is_failed(node)]
        found: dict[str, Liveness] = {}
        ctx.attempt(partial(_observe, ctx, name, started, found))
        for node in started:
            alive = found.get(node.id, Liveness.UNKNOWN)
            ctx.attempt(partial(_look, ctx, view, node, alive, node.id in busy))
        for node in nodes:
            if is_failed(node):
                ctx.attempt(partial(_forget, ctx, node))
    return LOOK_EVERY_S if known else None


def is_failed(node: Node) -> bool:
    """Whether the node is only the record of a start that did not work."""
    return RETRY_AT in node.facts


def launch(ctx: Context, nodes: Iterable[Node]) -> None:
    """Start the machines of nodes whose intent is written. Idempotent by the node's id, so an
    answer that was lost, and a second runner, change nothing."""
    for node in nodes:
        if node.state is NodeState.REQUESTED and node.pool in ctx.pools:
            ctx.attempt(partial(_launch, ctx, node))


def _launch(ctx: Context, node: Node) -> None:
    try:
        started = ctx.pools[node.pool].launch(node)
    except Refused as refusal:
        _fail(ctx, node, refusal.what + (f" ({refusal.why})" if refusal.why else ""))
        return
    when = started.launched or ctx.clock.now()
    reason = Reason(code="launched", text=f"pool {node.pool} has started it")
    _change(ctx, node, "launched", reason, launched=when, handle=started.handle)


def _observe(ctx: Context, pool: str, nodes: list[Node], found: dict[str, Liveness]) -> None:
    """What cannot be observed stays unknown, which ends nothing."""
    found.update(ctx.pools[pool].observe(nodes))


def _look(ctx: Context, view: View, node: Node, alive: Liveness, busy: bool) -> None:
    if alive is Liveness.DEAD:
        _bury(ctx, view, node)
        return
    if node.registered is None:
        _hurry(ctx, node)
        return
    lease = ctx.store.find(Lease, node.id)
    if ctx.observer.expired(node.id, lease):
        _give_up(ctx, view, node)
        return
    now = ctx.clock.now()
    if node.terminating is not None:
        ctx.pools[node.pool].terminate(node)
    elif node.draining is not None and not busy and now - node.draining > LEAVE_WITHIN_S:
        _end(ctx, node, Reason(code="slow", text="it was told to leave and did not"))
    elif node.ready is not None and not busy and node.idle_since is None:
        ctx.commit(Put(node.model_copy(update={"idle_since": now})))


def _bury(ctx: Context, view: View, node: Node) -> None:
    """The machine is gone for certain: what is left of it is ended, its work goes on elsewhere."""
    ctx.pools[node.pool].terminate(node)
    if node.registered is None:
        log_path = node.handle.get("log", "")
        _fail(
            ctx,
            node,
            "its agent ended before it had registered" + (f"; see {log_path}" if log_path else ""),
        )
        return
    if node.ready is None:
        problems = "; ".join(node.facts.get("problems") or ())
        _fail(ctx, node, problems or "its agent ended before it was ready")
        return
    left = node.draining is not None or node.terminating is not None
    reason = (
        Reason(code="left", text="it has left")
        if left
        else Reason(code="dead", text="its agent has died")
    )
    if lose_allocations(ctx, view, node, reason):
        _change(ctx, node, "gone", reason, gone=ctx.clock.now(), gone_reason=reason)


def _give_up(ctx: Context, view: View, node: Node) -> None:
    """Its lease has ended: whether or not the machine is there, nothing that it writes counts."""
    reason = Reason(code="lease", text="its agent was not heard of for the length of its lease")
    if not lose_allocations(ctx, view, node, reason):
        return
    if node.handle:
        _end(ctx, node, reason)
    else:
        # Nobody here started this machine, so nobody here can end it or is billed for it.
        _change(ctx, node, "gone", reason, gone=ctx.clock.now(), gone_reason=reason)


def _hurry(ctx: Context, node: Node) -> None:
    waited = ctx.clock.now() - (node.launched or node.requested)
    if node.terminating is not None:
        ctx.pools[node.pool].terminate(node)
    elif waited > REGISTER_WITHIN_S:
        _end(ctx, node, Reason(code="silent", text="its agent did not register in time"))


def _end(ctx: Context, node: Node, reason: Reason) -> None:
    """End the machine. The node is gone only when its pool says that it is dead."""
    if node.terminating is None:
        now = ctx.clock.now()
        _change(ctx, node, "terminating", reason, terminating=now)
    ctx.pools[node.pool].terminate(node)


def _fail(ctx: Context, node: Node, problem: str) -> None:
    tries = int(node.facts.get(FAILED, 0)) + 1
    wait = min(_FIRST_RETRY_S * 2.0 ** min(tries - 1, 30), _LONGEST_RETRY_S)
    now = ctx.clock.now()
    facts = {**node.facts, FAILED: tries, RETRY_AT: now + wait, PROBLEM: problem}
    reason = Reason(code="failed", text=problem)
    _change(ctx, node, "failed", reason, terminating=now, facts=facts)


def _forget(ctx: Context, node: Node) -> None:
    """A failure that nothing has asked about since its time was over."""
    if ctx.clock.now() >= float(node.facts[RETRY_AT]) + _FORGET_S:
        reason = Reason(code="failed", text=str(node.facts.get(PROBLEM, "")))
        _change(ctx, node, "gone", reason, gone=ctx.clock.now(), gone_reason=reason)


def _change(ctx: Context, node: Node, name: str, reason: Reason, **dates: Any) -> None:
    """Set dates on the node where they are not set yet, with the event that tells of it."""

    def change(record: Node) -> Sequence[Write]:
        new = {k: v for k, v in dates.items() if getattr(record, k) in (None, {})}
        new |= {k: v for k, v in dates.items() if k == "facts"}
        if record.gone is not None or not new:
            return ()
        event = Event(
            subject=node.id,
            name=f"node.{name}",
            text=reason.text,
            at=ctx.clock.now(),
            data={"pool": node.pool, "code": reason.code},
        )
        return Put(record.model_copy(update=new)), Append(event)

    try:
        update(ctx.store, Node, node.id, change, clock=ctx.clock)
    except BurstError as error:
        log.warning("node %s: %s", node.id, error.what)
    ctx.again = True
    log.info("node %s: %s %s", node.id, name, reason)
