"""`burst node …`."""

from __future__ import annotations

import click

from burst.cli.completing import pool_name
from burst.cli.session import Session, json_option, pass_session


@click.group()
def node() -> None:
    """List and show machines."""


@node.command("list")
@click.option("-a", "--all", "everything", is_flag=True, help="Those that are gone too.")
@click.option("--pool", shell_complete=pool_name, help="Only this pool's.")
@json_option
@pass_session
def list_nodes(session: Session, everything: bool, pool: str | None, as_json: bool) -> None:
    """List machines. --json prints an array of `Node`."""
    from burst.cli import encoding, reading
    from burst.core.model import Allocation, Node

    store = session.store
    nodes = store.children(Node, "") if everything else store.live(Node)
    nodes = [one for one in nodes if pool in (None, one.pool)]
    if pool is not None and not nodes:
        # One that the file has no more may have nodes yet.
        from burst.runner.admission import check_pool

        check_pool(pool, session.workspace.cluster)
    used = reading.used_slots(store.live(Allocation))
    if as_json:
        session.json([encoding.node_json(one, used.get(one.id, 0)) for one in nodes])
        return
    if not nodes:
        session.note("No machine is up. Pools start them when there is work.")
        return
    from burst.cli.views.records import nodes_table

    session.show(nodes_table(nodes, used, session.clock.now(), session.out.width))


@node.command()
@click.argument("node")
@json_option
@pass_session
def show(session: Session, node: str, as_json: bool) -> None:
    """Show a machine: its dates, what its agent found, what runs on it. --json prints `Node`."""
    from burst.cli.ids import find_node
    from burst.cli.pages import show_any

    show_any(session, find_node(session.store, node), as_json)
