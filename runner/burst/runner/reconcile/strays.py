"""What no record answers for, found by its tags and ended (`burst.runner.audit`).

The machines are listed before the records are read: a record is written before its machine is
asked for, so whatever was listed has one by then, unless nobody will ever write it.
"""

from __future__ import annotations

import logging
from functools import partial

from burst.core.model import Event, Node
from burst.core.store.port import Append
from burst.runner.audit import Found, Verdict, judge_leftover, judge_machine
from burst.runner.pools.port import Leftover, Machine
from burst.runner.reconcile.context import Context, View

log = logging.getLogger(__name__)

SWEEP_EVERY_S = 30.0
LEFTOVERS_EVERY_S = 300.0
UPLOADS_EVERY_S = 6 * 3600.0
"""A list of uploads costs as much as a write."""
_LEFTOVERS = "leftovers of "
_UPLOADS = "uploads"


def reconcile_strays(ctx: Context, view: View) -> float | None:
    """End what is nobody's, in every pool that costs money. Returns seconds until the next look
    is due."""
    costly = [name for name in ctx.pools if ctx.acts_for(name) and ctx.costs(name)]
    for name in costly:
        if _is_due(ctx, name, SWEEP_EVERY_S):
            ctx.attempt(partial(_sweep, ctx, name))
        if _is_due(ctx, _LEFTOVERS + name, LEFTOVERS_EVERY_S):
            ctx.attempt(partial(_tidy, ctx, name))
    if costly and _is_due(ctx, _UPLOADS, UPLOADS_EVERY_S):
        ctx.attempt(partial(_discard, ctx))
    return SWEEP_EVERY_S if costly and view.nodes else None


def _is_due(ctx: Context, what: str, every: float) -> bool:
    now = ctx.clock.monotonic()
    if now - ctx.swept_at.get(what, -every) < every:
        return False
    ctx.swept_at[what] = now
    return True


def _sweep(ctx: Context, pool: str) -> None:
    machines = ctx.pools[pool].machines()
    nodes = ctx.store.live(Node, pool) if machines else []
    judged = [(machine, judge_machine(pool, machine, nodes)) for machine in machines]
    strays = [each for each in judged if each[1].verdict is Verdict.STRAY]
    ctx.strays[pool] = len(strays)
    for machine, found in strays:
        ctx.attempt(partial(_end, ctx, machine, found))


def _tidy(ctx: Context, pool: str) -> None:
    """Delete what no machine uses. What does not say how old it is was seen the last time too."""
    leftovers = ctx.pools[pool].leftovers()
    nodes = ctx.store.live(Node, pool) if leftovers else []
    before, ctx.ageless[pool] = (
        ctx.ageless.get(pool, frozenset()),
        frozenset(each.id for each in leftovers if each.age is None),
    )
    for leftover in leftovers:
        found = judge_leftover(pool, leftover, nodes)
        known = leftover.age is not None or leftover.id in before
        if found.verdict is Verdict.STRAY and known:
            ctx.attempt(partial(_remove, ctx, leftover, found))


def _discard(ctx: Context) -> None:
    for upload in ctx.ws.blobs.unfinished():
        log.info("upload of %s, begun %.0f s ago, is discarded", upload.key, upload.age)
        ctx.attempt(partial(ctx.ws.blobs.discard, upload))


def _end(ctx: Context, machine: Machine, found: Found) -> None:
    ctx.pools[found.pool].end(machine)
    _tell(ctx, found, "ended")


def _remove(ctx: Context, leftover: Leftover, found: Found) -> None:
    if ctx.pools[found.pool].remove(leftover):
        _tell(ctx, found, "deleted")


def _tell(ctx: Context, found: Found, done: str) -> None:
    text = f"no record answers for {found.kind} {found.id} of pool {found.pool}; it is {done}"
    log.warning("%s", text)
    data = {"pool": found.pool, "launch": found.launch}
    at = ctx.clock.now()
    ctx.commit(Append(Event(subject=found.id, name="stray.ended", text=text, at=at, data=data)))
