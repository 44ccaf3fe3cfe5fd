"""The agent as a program: `python -m burst.runner.agent --pool NAME [--node ID]`."""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from collections.abc import Sequence

from burst.core.clock import Clock, SystemClock
from burst.core.config.cluster import PoolConfig, StaticPool
from burst.core.errors import BurstError, ExitCode, Refused
from burst.core.ids import check_id
from burst.core.model import Node
from burst.core.states import Reason
from burst.core.workspace import Workspace, open_workspace
from burst.runner.agent.agent import Agent
from burst.runner.agent.lease import Keeper, Term, take
from burst.runner.agent.locks import FileLock
from burst.runner.agent.registration import join, leave, pool_of, register, was_here
from burst.runner.agent.remains import LOCK, clear_remains
from burst.runner.agent.site import Settings, Site, nodes_folder

log = logging.getLogger(__name__)

_EXPECTED_ENDS = ("idle", "told", "signal", "gone")


def main(argv: Sequence[str] | None = None) -> int:
    """Run an agent until it leaves; returns the exit status."""
    options = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    try:
        ws = open_workspace()
        node = check_id(options.node) if options.node else join(ws, options.pool).id
        reason = serve(ws, node, options.pool)
    except BurstError as error:
        print(f"Error: {error}", file=sys.stderr)
        return int(error.exit_code)
    return int(ExitCode.OK if reason.code in _EXPECTED_ENDS else ExitCode.FAILED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m burst.runner.agent",
        description="Run the allocations of one node of a pool, on this machine.",
    )
    parser.add_argument("--pool", required=True, help="the pool that this machine belongs to")
    parser.add_argument("--node", default="", help="the node to be; without it, join as a new one")
    return parser


def serve(
    ws: Workspace,
    node: str,
    pool: str,
    settings: Settings | None = None,
    clock: Clock | None = None,
) -> Reason:
    """Be the agent of `node` until there is a reason to leave; returns the reason.

    Raises:
        NotFound: no such node or pool.
        Refused: the node has an agent already, is gone, or this machine is not fit.
        Unreachable: the store did not answer at the start.
    """
    settings, clock = settings or Settings(), clock or SystemClock()
    config = pool_of(ws.cluster.pools, pool)
    _check_pool(ws.store.get(Node, node), pool)
    lock = FileLock(nodes_folder(ws.home) / node / LOCK)
    try:
        free = lock.try_take()
    except OSError as error:
        raise BurstError(
            f"cannot keep state in {ws.home}",
            why=error.strerror or str(error),
            mend="free space there, or set BURST_HOME to a folder that you can write",
        ) from error
    if not free:
        raise Refused(f"node {node} already has an agent on this machine")
    try:
        return _serve(ws, node, config, settings, clock)
    finally:
        lock.release()


def _check_pool(node: Node, pool: str) -> None:
    if node.pool != pool:
        raise Refused(
            f"node {node.id} belongs to pool {node.pool!r}, not to {pool!r}",
            mend=f"start the agent with --pool {node.pool}",
        )


def _serve(
    ws: Workspace, node: str, config: PoolConfig, settings: Settings, clock: Clock
) -> Reason:
    clear_remains(ws, node, clock)
    term = Term(settings.lease, clock.monotonic())
    proven_dead = was_here(ws.store.get(Node, node), ws)
    lease = take(ws.store, node, settings.lease, proven_dead=proven_dead, clock=clock)
    registered = register(ws, node, clock)
    log.info("registered %s: %d slots", node, len(registered.slots))
    wake = threading.Event()
    keeper = Keeper(ws.store, lease, term, clock, wake.set)
    keeper.start()
    try:
        problems = registered.facts.get("problems") or []
        if problems:
            reason = Reason(code="unfit", text="; ".join(problems))
        else:
            site = Site(ws, registered, settings, clock, wake=wake.set)
            idle = None if isinstance(config, StaticPool) else config.idle
            agent = Agent(site, term, idle, wake)
            agent.install_signals()
            reason = agent.run()
    finally:
        keeper.close()
    if not term.taken_away:
        leave(ws, node, keeper.lease, reason, clock)
    log.info("left %s: %s", node, reason)
    if problems:
        raise Refused(f"node {node} is not fit to train", why=reason.text)
    return reason
