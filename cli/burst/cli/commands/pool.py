"""`burst pool …`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from burst.cli.completing import pool_name
from burst.cli.session import Session, json_option, pass_session
from burst.cli.shapes import PoolJson


@click.group()
def pool() -> None:
    """List where machines come from; let a stopped pool go on."""


@pool.command("list")
@json_option
@pass_session
def list_pools(session: Session, as_json: bool) -> None:
    """List pools, in the order in which they are tried.

    Of a pool that is stopped, or that rests after a refusal, it is said why. --json prints an
    array of `Pool`.
    """
    rows = [usage(session, name).json for name in session.workspace.cluster.pools]
    if as_json:
        session.json(rows)
        return
    from burst.cli.views.records import pools_table

    session.show(pools_table(rows, session.clock.now(), session.out.width))


@pool.command()
@click.argument("name", shell_complete=pool_name)
@json_option
@pass_session
def resume(session: Session, name: str, as_json: bool) -> None:
    """Let nodes be asked for again in a pool that was stopped, at once.

    A pool is stopped when its nodes end, one after the other, before they are ready, so that a
    broken image costs little. What was counted against it is forgotten, refusals too. Resuming a
    pool that nothing holds changes nothing. --json prints a `Pool`.
    """
    from burst.cli.pushing import see_to_it
    from burst.runner import commands

    commands.resume_pool(session.workspace, name, clock=session.clock)
    see_to_it(session, [name])
    if as_json:
        session.json(usage(session, name).json)
    else:
        session.note(f"Pool {name} may start nodes.")


@dataclass(frozen=True)
class Usage:
    """How full a pool is."""

    json: PoolJson

    @property
    def slots(self) -> int:
        return self.json["slots"]

    @property
    def used(self) -> int:
        return self.json["used"]

    @property
    def words(self) -> str:
        """`2 of 2 slots in use on 1 node, of at most 1 node with 2 slots`."""
        pool = self.json
        nodes, most = pool["nodes"], pool["max_nodes"]
        held = f"{pool['used']} of {pool['slots']} slots in use on {_nodes(nodes)}"
        if not nodes:
            held = "no machine is up"
        if most is None:
            return held
        each = pool["slots_per_node"]
        return f"{held}, of at most {_nodes(most)}" + (f" with {each} slots" if each else "")


def usage(session: Session, name: str) -> Usage:
    """How full the pool `name` is; one that burst.yaml no longer has is `unknown`."""
    from burst.core.model import Allocation, Node, Supply, Trial
    from burst.runner.supply import resting

    store = session.store
    config = session.workspace.cluster.pools.get(name)
    nodes = [node for node in store.live(Node, name) if node.ready is not None]
    held = [a for a in store.live(Allocation, name)]
    per_node, most = _limits(session, name)
    waiting = [t for t in store.live(Trial) if t.state == "waiting" and t.pools[:1] == (name,)]
    supply = store.find(Supply, name) or Supply(id=name)
    refused, until = resting(supply, session.clock.now()) or (None, None)
    return Usage(
        {
            "name": name,
            "kind": config.kind if config is not None else "unknown",
            "slots_per_node": per_node,
            "max_nodes": most,
            "nodes": len(nodes),
            "slots": sum(len(node.slots) or node.expected_slots for node in nodes),
            "used": sum(len(share.slots) for a in held for share in a.shares),
            "waiting": len(waiting),
            "stopped": str(supply.stopped) if supply.stopped else None,
            "refused": refused,
            "refused_until": until,
        }
    )


def _limits(session: Session, name: str) -> tuple[int | None, int | None]:
    """What the pool can ever give: slots a node, and nodes; None where it cannot be used yet, or
    does not say."""
    from burst.core.errors import BurstError
    from burst.runner.pools.open import is_later, open_pools

    pool = open_pools(session.workspace).get(name)
    if pool is None or is_later(pool):
        return None, None
    try:
        return pool.limits.slots_per_node, pool.limits.max_nodes
    except BurstError:  # the table is of all pools; the runner books what is wrong with this one
        config = session.workspace.cluster.pools[name]
        return None, getattr(config, "max_nodes", None)


def _nodes(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"
