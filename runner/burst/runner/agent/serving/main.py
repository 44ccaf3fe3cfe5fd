"""The agent as a program: `python -m burst.runner.agent --pool NAME [--node ID]`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from burst.core.clock import Clock, SystemClock
from burst.core.config.cluster import PoolConfig
from burst.core.errors import BurstError, ExitCode, Refused
from burst.core.ids import check_id
from burst.core.model import Node
from burst.core.states import Reason
from burst.core.workspace import Workspace, open_workspace
from burst.runner.agent.attempts.remains import LOCK, clear_remains, forget_folder, ship_remains
from burst.runner.agent.host import Host
from burst.runner.agent.locks import FileLock
from burst.runner.agent.preparing.tier_folders import clear_tiers
from burst.runner.agent.serving.agent import Agent
from burst.runner.agent.serving.lease import Keeper, Term, take
from burst.runner.agent.serving.registration import join, leave, pool_of, register, was_here
from burst.runner.agent.serving.stay import Stay
from burst.runner.agent.signals import Signals
from burst.runner.agent.site import Settings, Site, nodes_folder

log = logging.getLogger(__name__)

_LOCK_PATIENCE_S = 2.0
_LAST_LOGS_S = 60.0
EXPECTED_ENDS = ("idle", "told", "signal", "gone", "notice", "old", "kept")


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
    return int(ExitCode.OK if reason.code in EXPECTED_ENDS else ExitCode.FAILED)


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
    host: Host | None = None,
) -> Reason:
    """Be the agent of `node` until there is a reason to leave; returns the reason.

    In a program's main thread it takes SIGTERM and SIGINT over.

    Raises:
        NotFound: no such node or pool.
        Refused: the node has an agent already, is gone, or this machine is not fit.
        Unreachable: the store did not answer at the start.
    """
    settings, clock, host = settings or Settings(), clock or SystemClock(), host or Host()
    config = pool_of(ws.cluster.pools, pool)
    _check_pool(ws.store.get(Node, node), pool)
    folder = nodes_folder(ws.home) / node
    lock = FileLock(folder / LOCK)
    if not _try_take(lock, ws, clock):
        raise Refused(
            f"node {node} already has an agent on this machine",
            mend="end that agent, or start one without --node; it joins as a new node",
        )
    try:
        reason = _serve(ws, node, config, settings, clock, host)
        if reason.code in EXPECTED_ENDS:
            forget_folder(folder)
        return reason
    finally:
        lock.release()


def _check_pool(node: Node, pool: str) -> None:
    if node.pool != pool:
        raise Refused(
            f"node {node.id} belongs to pool {node.pool!r}, not to {pool!r}",
            mend=f"start the agent with --pool {node.pool}",
        )


def _try_take(lock: FileLock, ws: Workspace, clock: Clock) -> bool:
    """Patient for a moment: another agent may be clearing what our dead predecessor left."""
    until = clock.monotonic() + _LOCK_PATIENCE_S
    try:
        while not lock.try_take():
            if clock.monotonic() >= until:
                return False
            clock.sleep(0.1)
    except OSError as error:
        raise BurstError(
            f"cannot keep state in {ws.home}",
            why=error.strerror or str(error),
            mend="free space there, or set BURST_HOME to a folder that you can write",
        ) from error
    return True


def _serve(
    ws: Workspace, node: str, config: PoolConfig, settings: Settings, clock: Clock, host: Host
) -> Reason:
    signals = Signals()
    signals.install()
    host.listen(signals.wake.set)
    clear_remains(ws, node, clock)
    clear_tiers(ws, clock)
    term = Term(settings.lease, clock.monotonic())
    # A machine that ends after its agent is the only one that its node ever has.
    proven_dead = host.ends or was_here(ws.store.get(Node, node), ws)
    lease = take(ws.store, node, settings.lease, proven_dead=proven_dead, clock=clock)
    host.renewed()
    keeper = Keeper(ws.store, lease, term, clock, signals.wake.set, host.renewed)
    keeper.start()
    try:
        registered = register(ws, node, clock, host)
        host.registered()
        problems = "; ".join(registered.facts.get("problems") or ())
        if problems:
            reason = Reason(code="unfit", text=problems)
        else:
            log.info("registered %s: %d slots", node, len(registered.slots))
            site = Site(ws, registered, settings, clock, wake=signals.wake.set)
            reason = Agent(site, term, Stay.of(config), signals, host).run()
            if host.ends:
                ship_remains(ws, node, clock, _ship_for(host, clock))
    finally:
        keeper.close()
    away = reason.code == "lease" and not term.taken_away
    if not (host.ends and away):  # a machine whose store is away comes back as the same node
        _say_goodbye(ws, node, keeper, reason, clock)
    if problems:
        raise Refused(
            f"node {node} is not fit to train",
            why=problems,
            mend="mend that and start the agent again; it joins as a new node",
        )
    return reason


def _ship_for(host: Host, clock: Clock) -> float:
    """Seconds that the last lines of the logs may take on a machine that ends."""
    if host.reclaim is None:
        return _LAST_LOGS_S
    return min(_LAST_LOGS_S, max(0.0, host.reclaim.deadline - clock.now()))


def _say_goodbye(ws: Workspace, node: str, keeper: Keeper, reason: Reason, clock: Clock) -> None:
    """Best effort: whoever does not hear it sees the lease run out."""
    try:
        leave(ws, node, keeper.lease, reason, clock)
    except BurstError as error:
        log.warning("taking leave of the store: %s", error.what)
    log.info("left %s: %s", node, reason)
