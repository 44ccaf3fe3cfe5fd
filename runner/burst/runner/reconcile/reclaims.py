"""What the cloud tells of a machine that it will take away, where the machine may be silent.

A node hears its own notice within seconds and drains; this is the same, told from outside, for one
whose agent is dead or cut off. Whoever comes first, the result is the same.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from burst.core.model import Allocation, DrainCause, Node
from burst.core.states import Reason
from burst.core.store import update
from burst.core.store.port import Write
from burst.runner.agent.host import Reclaim
from burst.runner.agent.serving.registration import note_notice
from burst.runner.reconcile.context import Context
from burst.runner.wishes import ask_to_leave

log = logging.getLogger(__name__)


def hear_notice(ctx: Context, instance: str, reclaim_at: float) -> None:
    """Drain the node whose machine is called `instance`, and all that runs there. Idempotent.

    Args:
        reclaim_at: when the machine goes, as a date.
    """
    now = ctx.clock.now()
    text = "the machine will be taken away, says the cloud"
    left = max(0.0, reclaim_at - now)
    reclaim = Reclaim.told(heard=now, at=reclaim_at, left=left, text=text)
    for node in ctx.store.live(Node):
        if node.handle.get("instance") == instance:
            log.info("node %s: %s", node.id, text)
            ctx.attempt(partial(_note, ctx, node, reclaim))
            ctx.attempt(partial(_drain, ctx, node, reclaim))


def _note(ctx: Context, node: Node, reclaim: Reclaim) -> None:
    if node.noticed is None:
        note_notice(ctx.store, node.id, reclaim, ctx.clock)


def _drain(ctx: Context, node: Node, reclaim: Reclaim) -> None:
    reason = Reason(code="notice", text=f"node {node.id} will be taken away")
    for allocation in ctx.store.live(Allocation, node.pool):
        if any(share.node == node.id for share in allocation.shares):
            update(
                ctx.store,
                Allocation,
                allocation.id,
                lambda each: _leaving(ctx, each, reason, reclaim),
                clock=ctx.clock,
            )


def _leaving(
    ctx: Context, allocation: Allocation, reason: Reason, reclaim: Reclaim
) -> Sequence[Write]:
    now = ctx.clock.now()
    grace = max(0.0, reclaim.deadline - now)
    return ask_to_leave(allocation, DrainCause.NOTICE, reason, now, grace)
