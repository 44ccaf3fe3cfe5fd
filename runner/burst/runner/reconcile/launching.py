"""From what the plan asks for to machines: the intent is written, then the pool is called.

All nodes of one request are one call, whoever makes it and however often. Its answer is taken in
by one commit over all of them that have no machine yet: an agent that came up meanwhile and took
one of them makes that commit a conflict, and it is thought over with what the agent wrote.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial

from burst.core.ids import new_id
from burst.core.model import Event, Node, Supply
from burst.core.states import NodeState, Reason
from burst.core.store.port import Append, Put, Write
from burst.core.units import counted
from burst.runner.plan.snapshot import Launch
from burst.runner.pools.port import Pool
from burst.runner.reconcile.context import Context, View, supply_of
from burst.runner.supply import after_asked, after_refusals, trouble

log = logging.getLogger(__name__)

_NODES_A_REQUEST = 40
"""Of those that need not be whole; a gang is one request whatever its size."""


def intend(ctx: Context, view: View, supply: Supply, launch: Launch) -> list[Node]:
    """Write the intents of one launch. The pool's book `supply` goes with them, so that of two
    runners that saw the same demand one writes. Returns none where another was faster.

    Raises:
        NothingOpen: the pool has nothing open after all.
        Refused: as the pool is set up it can have no machine.
    """
    now, pool = ctx.clock.now(), ctx.pools[launch.pool]
    count = launch.count if launch.whole else min(launch.count, _NODES_A_REQUEST)
    beside = next((node for node in view.nodes if node.id == launch.beside), None)
    ask = pool.ask(count, whole=launch.whole, beside=beside, supply=supply, now=now)
    request = new_id("launch", ctx.clock)
    nodes = [
        Node(
            id=new_id("node", ctx.clock),
            pool=launch.pool,
            expected_slots=pool.limits.slots_per_node,
            requested=now,
            launch=request,
            whole=launch.whole,
            ask=ask,
        )
        for _ in range(count)
    ]
    text = f"{counted(count, 'node')} of pool {launch.pool}: trials wait for them"
    told = Event(
        subject=nodes[0].id,
        name="node.requested",
        text=text,
        at=now,
        data={"pool": launch.pool, "launch": request, "nodes": count},
    )
    if not ctx.commit(Put(after_asked(supply)), Append(told), *map(Put, nodes)):
        return []
    log.info("launch %s: %s", request, text)
    return [node.model_copy(update={"version": 1}) for node in nodes]


def launch(ctx: Context, nodes: Iterable[Node]) -> None:
    """Start the machines of nodes whose intent is written and that have none yet, and learn what
    is to be known of machines that came up before the answer was taken in."""
    requests: dict[str, list[Node]] = {}
    for node in nodes:
        if ctx.acts_for(node.pool) and node.terminating is None:
            requests.setdefault(node.launch or node.id, []).append(node)
    for known in requests.values():
        pool = ctx.pool(known[0].pool)
        if any(_is_open(node, costs=ctx.costs(pool.name)) for node in known):
            ctx.attempt(partial(_launch, ctx, pool, known))


def _is_open(node: Node, *, costs: bool) -> bool:
    return node.state is NodeState.REQUESTED or (costs and bool(node.launch) and not node.cell)


def _launch(ctx: Context, pool: Pool, known: Sequence[Node]) -> None:
    current = [ctx.store.get(Node, node.id) for node in known]
    current = [node for node in current if node.gone is None and node.terminating is None]
    if not current:
        return
    answer = pool.launch(current)
    if not current[0].launch and not answer.nodes and not answer.refusals:
        return  # nothing starts the machines of this pool
    started = {node.id: node for node in answer.nodes}
    changed = [_with_machine(node, started[node.id]) for node in current if node.id in started]
    new = [node for node in changed if node not in current]
    without = [n for n in current if n.id not in started and n.state is NodeState.REQUESTED]
    writes: list[Write] = [Put(node) for node in new]
    begun = [node for node in new if node.registered is None]
    if begun:
        writes.append(_told(ctx, begun, "launched", f"pool {pool.name} has started"))
    if answer.refusals:
        book = after_refusals(supply_of(ctx.store, pool.name), answer.refusals, ctx.clock.now())
        writes.append(Put(book))
    if without:
        why = trouble(book) if answer.refusals else "the pool has not given as many as were asked"
        writes += _given_up(ctx, without, Reason(code="refused", text=why))
        log.warning("pool %s: %s", pool.name, why)
    if writes:
        ctx.commit(*writes)


def _with_machine(node: Node, machine: Node) -> Node:
    return node.model_copy(
        update={
            "launched": machine.launched,
            "handle": machine.handle,
            "cell": machine.cell,
            "price": machine.price,
        }
    )


def _given_up(ctx: Context, nodes: Sequence[Node], reason: Reason) -> list[Write]:
    now = ctx.clock.now()
    gone = [node.model_copy(update={"gone": now, "gone_reason": reason}) for node in nodes]
    return [*map(Put, gone), _told(ctx, nodes, "refused", reason.text)]


def _told(ctx: Context, nodes: Sequence[Node], name: str, text: str) -> Append:
    """One event for all nodes of a request, since a gang's many would not fit into a commit."""
    ids = [node.id for node in nodes]
    data = {"pool": nodes[0].pool, "launch": nodes[0].launch, "nodes": ids}
    if name == "launched":
        text = f"{text} {counted(len(ids), 'node')}"
    return Append(
        Event(subject=ids[0], name=f"node.{name}", text=text, at=ctx.clock.now(), data=data)
    )
