"""Writing what was learned of a node: each fact once, with the event that tells of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from burst.core.errors import BurstError
from burst.core.model import Event, Node, Refusal, Supply
from burst.core.states import Reason
from burst.core.store import update
from burst.core.store.port import Append, Put, Write
from burst.runner.reconcile.context import Context, supply_of
from burst.runner.supply import after_failure, after_refusals

log = logging.getLogger(__name__)


def note(ctx: Context, node: Node, name: str, reason: Reason, **facts: Any) -> None:
    """Set `facts` on the node where they are not set yet."""

    def change(record: Node) -> Sequence[Write]:
        new = {k: v for k, v in facts.items() if getattr(record, k) in (None, {}, "")}
        if record.gone is not None or not new:
            return ()
        return Put(record.model_copy(update=new)), _told(ctx, node, name, reason)

    try:
        update(ctx.store, Node, node.id, change, clock=ctx.clock)
    except BurstError as error:
        log.warning("node %s: %s", node.id, error.what)
    ctx.again = True
    log.info("node %s: %s %s", node.id, name, reason)


def note_gone(ctx: Context, node: Node, reason: Reason) -> None:
    """Its machine has ended, or it never had one and never will."""
    note(ctx, node, "gone", reason, gone=ctx.clock.now(), gone_reason=reason)


def note_failed(ctx: Context, node: Node, problem: str) -> bool:
    """It is gone and was never ready, which its pool's book counts in the same commit."""
    found = ctx.store.get(Node, node.id)
    if found.gone is not None:
        return False
    now, reason = ctx.clock.now(), Reason(code="failed", text=problem)
    costs = ctx.costs(node.pool)
    before = supply_of(ctx.store, node.pool)
    after = after_failure(before, problem, now, costs=costs)
    writes: list[Write] = [
        Put(found.model_copy(update={"gone": now, "gone_reason": reason})),
        Put(after),
        _told(ctx, node, "failed", reason),
    ]
    if after.stopped is not None and before.stopped is None:
        writes.append(Append(_stopped(after, now)))
        log.error("pool %s is stopped: %s", node.pool, after.stopped)
    log.warning("node %s: %s", node.id, problem)
    return ctx.commit(*writes)


def note_withdrawn(ctx: Context, node: Node, refusals: Mapping[str, Refusal]) -> bool:
    """It is gone and was never ready, but taken away: that says nothing of what it boots from. The
    offers that it came of rest."""
    found = ctx.store.get(Node, node.id)
    if found.gone is not None:
        return False
    said = "; ".join(f"{each.code}: {each.text}" for each in refusals.values())
    text = "it was taken away before it was ready" + (said and f"; {said}")
    now, reason = ctx.clock.now(), Reason(code="reclaimed", text=text)
    writes: list[Write] = [
        Put(found.model_copy(update={"gone": now, "gone_reason": reason})),
        _told(ctx, node, "gone", reason),
    ]
    if refusals:
        writes.append(Put(after_refusals(supply_of(ctx.store, node.pool), refusals, now)))
    log.warning("node %s: %s", node.id, text)
    return ctx.commit(*writes)


def _told(ctx: Context, node: Node, name: str, reason: Reason) -> Append:
    data = {"pool": node.pool, "code": reason.code}
    at = ctx.clock.now()
    return Append(Event(subject=node.id, name=f"node.{name}", text=reason.text, at=at, data=data))


def _stopped(supply: Supply, at: float) -> Event:
    return Event(subject=supply.id, name="pool.stopped", text=str(supply.stopped), at=at)
