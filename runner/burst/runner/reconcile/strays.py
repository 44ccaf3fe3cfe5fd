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
from burst.runner.pools.port import Gone, Leftover, Machine, Pool
from burst.runner.reconcile.context import Context, View

log = logging.getLogger(__name__)

SWEEP_EVERY_S = 30.0
LEFTOVERS_EVERY_S = 300.0
UPLOADS_EVERY_S = 6 * 3600.0
"""A list of uploads costs as much as a write."""
_LEFTOVERS = "(leftovers)"
_GONE = "(gone)"
_UPLOADS = "uploads"


def reconcile_gone(ctx: Context, view: View) -> float | None:
    """Find the pools that somebody has taken out of the cluster file, or named anew, by what they
    have left: records of nodes, and whatever carries the cluster's tag."""
    if ctx.finder is None:
        return None
    for name in {node.pool for node in view.nodes if is_tagged(node)} - ctx.pools.keys():
        _take_up(ctx, ctx.finder, name)
    if _is_due(ctx, _GONE, SWEEP_EVERY_S):
        leftovers = _is_due(ctx, _LEFTOVERS, LEFTOVERS_EVERY_S)
        ctx.attempt(partial(_find_gone, ctx, ctx.finder, leftovers))
    return None


def is_tagged(node: Node) -> bool:
    """Whether the machine of a node is one that carries tags, if it has one. Pure."""
    return "instance" in node.handle or bool(node.ask)


def _find_gone(ctx: Context, finder: Gone, leftovers: bool) -> None:
    for name in finder.names(leftovers=leftovers):
        _take_up(ctx, finder, name)


def _take_up(ctx: Context, finder: Gone, name: str) -> None:
    if name not in ctx.gone:
        log.info("pool %s is not in the cluster file any more; its machines leave", name)
        ctx.gone[name] = finder.pool(name)


def reconcile_strays(ctx: Context, view: View) -> float | None:
    """End what is nobody's, in every pool that costs money. Returns seconds until the next look
    is due."""
    costly = [name for name in ctx.pools if ctx.acts_for(name) and ctx.costs(name)]
    pools = [*((name, ctx.pools[name]) for name in costly), *ctx.gone.items()]
    for name, pool in pools:
        # A pool of another kind may have the name now.
        what = f"{_GONE} {name}" if pool is ctx.gone.get(name) else name
        if _is_due(ctx, what, SWEEP_EVERY_S):
            ctx.attempt(partial(_sweep, ctx, what, pool))
        if _is_due(ctx, f"{_LEFTOVERS} {what}", LEFTOVERS_EVERY_S):
            ctx.attempt(partial(_tidy, ctx, what, pool))
    if (costly or ctx.finder is not None) and _is_due(ctx, _UPLOADS, UPLOADS_EVERY_S):
        ctx.attempt(partial(_discard, ctx))
    return SWEEP_EVERY_S if pools and view.nodes else None


def _is_due(ctx: Context, what: str, every: float) -> bool:
    now = ctx.clock.monotonic()
    if now - ctx.swept_at.get(what, -every) < every:
        return False
    ctx.swept_at[what] = now
    return True


def _sweep(ctx: Context, what: str, pool: Pool) -> None:
    machines = pool.machines()
    nodes = ctx.store.live(Node, pool.name) if machines else []
    judged = [(machine, judge_machine(pool.name, machine, nodes)) for machine in machines]
    strays = [each for each in judged if each[1].verdict is Verdict.STRAY]
    ctx.strays[what] = len(strays)
    for machine, found in strays:
        ctx.attempt(partial(_end, ctx, pool, machine, found))


def _tidy(ctx: Context, what: str, pool: Pool) -> None:
    """Delete what no machine uses. What does not say how old it is was seen the last time too."""
    leftovers = pool.leftovers()
    nodes = ctx.store.live(Node, pool.name) if leftovers else []
    before, ctx.ageless[what] = (
        ctx.ageless.get(what, frozenset()),
        frozenset(each.id for each in leftovers if each.age is None),
    )
    for leftover in leftovers:
        found = judge_leftover(pool.name, leftover, nodes)
        known = leftover.age is not None or leftover.id in before
        if found.verdict is Verdict.STRAY and known:
            ctx.attempt(partial(_remove, ctx, pool, leftover, found))


def _discard(ctx: Context) -> None:
    for upload in ctx.ws.blobs.unfinished():
        log.info("upload of %s, begun %.0f s ago, is discarded", upload.key, upload.age)
        ctx.attempt(partial(ctx.ws.blobs.discard, upload))


def _end(ctx: Context, pool: Pool, machine: Machine, found: Found) -> None:
    pool.end(machine)
    _tell(ctx, found, "ended")


def _remove(ctx: Context, pool: Pool, leftover: Leftover, found: Found) -> None:
    if pool.remove(leftover):
        _tell(ctx, found, "deleted")


def _tell(ctx: Context, found: Found, done: str) -> None:
    of = f"of pool {found.pool}" if found.pool else "of no pool"
    text = f"no record answers for {found.kind} {found.id} {of}; it is {done}"
    log.warning("%s", text)
    data = {"pool": found.pool, "launch": found.launch}
    at = ctx.clock.now()
    ctx.commit(Append(Event(subject=found.id, name="stray.ended", text=text, at=at, data=data)))
