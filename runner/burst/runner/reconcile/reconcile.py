"""One pass: read what is live, let each reconciler do its part, say when to come back.

May be called by anyone, at any time, by several at once and again after a crash at any point:
every write names the versions that were read, and what one pass does not get done, the next does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from burst.core.errors import BurstError
from burst.runner.reconcile.allocations import reconcile_allocations
from burst.runner.reconcile.context import Context, View
from burst.runner.reconcile.experiments import reconcile_experiments
from burst.runner.reconcile.lateness import reconcile_lateness
from burst.runner.reconcile.launching import launch
from burst.runner.reconcile.limits import reconcile_limits
from burst.runner.reconcile.nodes import reconcile_nodes
from burst.runner.reconcile.planning import reconcile_planning
from burst.runner.reconcile.retain import reconcile_retention
from burst.runner.reconcile.strays import reconcile_gone, reconcile_strays

log = logging.getLogger(__name__)

AFTER_FAILURE_S = 5.0
Part = Callable[[Context, View], float | None]


def reconcile(ctx: Context) -> float | None:
    """One pass over all that is live.

    A part that fails is logged and comes again in a few seconds; the others go on, and nothing is
    ended because of it. Returns seconds until the next pass is due even if nothing changes; 0
    where this one changed something, None where only a change can bring work.

    Raises:
        Unreachable: the store did not answer.
    """
    ctx.again = ctx.failed = False
    try:
        view = View.read(ctx.store, ctx.pools)
    except BurstError:
        ctx.observer.begin_anew()
        raise
    due = [_attempt(part, ctx, view) for part in _PARTS]
    known = [seconds for seconds in due if seconds is not None]
    known += [AFTER_FAILURE_S] if ctx.failed else []
    return 0.0 if ctx.again else min(known, default=None)


def _plan_and_launch(ctx: Context, view: View) -> float | None:
    next_plan, created = reconcile_planning(ctx, view)
    launch(ctx, [*view.nodes, *created])
    return next_plan


def _attempt(part: Part, ctx: Context, view: View) -> float | None:
    try:
        return part(ctx, view)
    except BurstError as error:
        log.warning("%s: %s", part.__name__.strip("_"), error)
    except Exception:
        log.exception("%s failed; it is tried again", part.__name__.strip("_"))
    return AFTER_FAILURE_S


_PARTS: tuple[Part, ...] = (
    reconcile_gone,
    reconcile_limits,
    reconcile_nodes,
    reconcile_allocations,
    reconcile_experiments,
    _plan_and_launch,
    reconcile_strays,
    reconcile_retention,
    reconcile_lateness,
)
