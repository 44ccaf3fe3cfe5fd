"""`burst agent`."""

from __future__ import annotations

import click

from burst.cli.session import Session, pass_session


@click.command()
@click.option("--pool", help="The pool to join; by default the cluster's first.")
@pass_session
def agent(session: Session, pool: str | None) -> int:
    """Join this machine to a pool.

    It takes work until it is told to leave; Ctrl-C checkpoints what runs first. Pools that start
    their own machines start their agents too; a `static` pool needs this on each machine.
    """
    from burst.cli.logs import log_to_stderr
    from burst.core.states import Reason
    from burst.runner.agent.serving.main import serve
    from burst.runner.agent.serving.registration import join

    log_to_stderr()
    workspace = session.workspace
    chosen = pool or next(iter(workspace.cluster.pools))
    node = join(workspace, chosen).id
    session.note(f"joined pool {chosen} as {node}; Ctrl-C leaves it")
    reason: Reason = serve(workspace, node, chosen)
    return 0 if reason.code in ("idle", "told", "signal", "gone") else 1
