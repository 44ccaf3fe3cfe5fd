"""What every pool can ever give, and the book's entry where that is nothing, as it is set up."""

from __future__ import annotations

import logging
from functools import partial

from burst.core.errors import Refused
from burst.core.model import Event, Supply
from burst.core.store.port import Append, Put
from burst.runner.reconcile.context import Context, View
from burst.runner.supply import after_misfit, closed_until, is_misfit, trouble

log = logging.getLogger(__name__)


def reconcile_limits(ctx: Context, view: View) -> float | None:
    """Ask each pool for its limits, which most know without I/O. One that does not say keeps none
    of the others from being planned."""
    for name in ctx.pools:
        ctx.attempt(partial(_learn, ctx, name, view.supplies[name]))
    return None


def _learn(ctx: Context, name: str, supply: Supply) -> None:
    if is_misfit(supply) and closed_until(supply, ctx.clock.now()) is not None:
        return
    ctx.limits.pop(name, None)
    try:
        ctx.limits[name] = ctx.pools[name].limits
    except Refused as error:
        book_misfit(ctx, supply, error)


def book_misfit(ctx: Context, supply: Supply, error: Refused) -> bool:
    """Write that the pool can have no machine as it is set up, and tell it the first time."""
    now = ctx.clock.now()
    after = after_misfit(supply, error, now)
    told = () if is_misfit(supply) else (_refused(after, now),)
    log.warning("pool %s: %s", supply.id, error)
    return ctx.commit(Put(after), *told)


def _refused(supply: Supply, at: float) -> Append:
    return Append(Event(subject=supply.id, name="pool.refused", text=trouble(supply), at=at))
