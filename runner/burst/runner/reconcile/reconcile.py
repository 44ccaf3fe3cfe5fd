"""One pass: read what is live, let each reconciler do its part, say when to come back.

May be called by anyone, at any time, by several at once and again after a crash at any point:
every write names the versions that were read, and what one pass does not get done, the next does.
"""

from __future__ import annotations

import logging

from burst.core.model import Node
from burst.core.states import NodeState
from burst.runner.reconcile.allocations import reconcile_allocations
from burst.runner.reconcile.context import Context, View
from burst.runner.reconcile.experiments import reconcile_experiments
from burst.runner.reconcile.nodes import launch, reconcile_nodes
from burst.runner.reconcile.planning import reconcile_planning
from burst.runner.reconcile.retain import reconcile_retention

log = logging.getLogger(__name__)

AFTER_FAILURE_S = 5.0
_PARTS = (reconcile_nodes, reconcile_allocations, reconcile_experiments)


def reconcile(ctx: Context) -> float | None:
    """One pass over all that is live.

    A part that fails is logged and comes again in a few seconds; the others go on, and nothing is
    ended because of it. Returns seconds until the next pass is due even if nothing changes; 0
    where this one changed something, None where only a change can bring work.

    Raises:
        Unreachable: the store did not answer.
    """
    ctx.again = False
    view = View.read(ctx.store, ctx.pools)
    due: list[float] = []
    for part in _PARTS:
        try:
            due += _known(part(ctx, view))
        except Exception:
            log.exception("%s failed; it is tried again", part.__name__)
            due.append(AFTER_FAILURE_S)
    requested = [node for node in view.nodes if node.state is NodeState.REQUESTED]
    try:
        next_plan, created = reconcile_planning(ctx, view)
        due += _known(next_plan)
        due += _known(_launch(ctx, [*requested, *created]))
        due += _known(reconcile_retention(ctx, view))
    except Exception:
        log.exception("planning failed; it is tried again")
        due.append(AFTER_FAILURE_S)
    return 0.0 if ctx.again else min(due, default=None)


def _launch(ctx: Context, nodes: list[Node]) -> float | None:
    launch(ctx, nodes)
    return None


def _known(seconds: float | None) -> list[float]:
    return [] if seconds is None else [seconds]
