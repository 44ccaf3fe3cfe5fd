"""The runner as a serverless function: `burst.runner.lambda_handler.handler`.

It may be called by the table's stream (something was written), by a schedule (the safety net),
and by EC2's events (a machine will be taken away, or has changed its state); all of them mean the
same, that somebody should reconcile. Each call is bounded, and any number of them may run at once:
what one does not get done, the next does. While anything is live a call stays for most of a
minute, so that it sees whether a lease is renewed; with nothing live it returns at once.

Its environment names the state, as a node's does: BURST_STORE, BURST_BLOBS, BURST_CLUSTER. What it
prints last is what alarms and the dashboard look at (`burst.runner.measuring`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from burst.core.clock import Clock, SystemClock
from burst.core.errors import BurstError
from burst.core.workspace import open_workspace
from burst.runner.loop import Runner
from burst.runner.measuring import Teller, look
from burst.runner.pools.elsewhere import left_to_people, pools_of_the_function
from burst.runner.pools.open import open_gone

log = logging.getLogger(__name__)

LONGEST_S = 50.0
"""A call's work; the schedule calls again every minute."""
RESERVE_S = 10.0
"""Kept of the time that the function has left, for the pass that is under way."""
NOTICE_S = 120.0
"""From EC2's warning until the machine goes."""
_HOME = "/tmp/burst"
"""Below the only folder that a function may write to."""
_WARNING = "EC2 Spot Instance Interruption Warning"

_runner: Runner | None = None
_teller = Teller()


class LambdaContext(Protocol):
    """What of AWS's own context object is used."""

    def get_remaining_time_in_millis(self) -> int: ...


def handler(event: Mapping[str, Any], context: LambdaContext | None) -> dict[str, Any]:
    """Reconcile for a while; returns what was done, for the function's log.

    Raises:
        BurstError: the store or the blobs could not be used, so that AWS counts an error and, for
            a stream, calls again.
    """
    logging.getLogger().setLevel(logging.INFO)
    runner = _current(os.environ)
    done = drive(runner, event, seconds_for(context))
    tell(runner, SystemClock())
    return done


def drive(runner: Runner, event: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Act on one event with a runner that outlives it."""
    noticed = noticed_by(event, SystemClock())
    if noticed is not None:
        runner.hear_notice(*noticed)
    passes = runner.run_for(seconds)
    return {"passes": passes, "noticed": noticed[0] if noticed else ""}


def tell(runner: Runner, clock: Clock) -> None:
    """Print what the cluster is at. What cannot be read is left for the next call to tell."""
    ws = runner.workspace
    try:
        measured = look(ws.store, runner.strays, clock.now())
    except BurstError as error:
        log.warning("nothing is measured: %s", error)
        return
    line = _teller.line(ws.cluster.cluster, measured, clock.now())
    if line:
        print(line, flush=True)


def seconds_for(context: LambdaContext | None) -> float:
    """How long a call may work."""
    if context is None:
        return LONGEST_S
    left = context.get_remaining_time_in_millis() / 1000.0
    return max(0.0, min(LONGEST_S, left - RESERVE_S))


def noticed_by(event: Mapping[str, Any], clock: Clock) -> tuple[str, float] | None:
    """The instance that EC2's event says will be taken away, and when; None for other events."""
    if event.get("source") != "aws.ec2" or event.get("detail-type") != _WARNING:
        return None
    instance = str(dict(event.get("detail") or {}).get("instance-id", ""))
    try:
        said = datetime.fromisoformat(str(event.get("time", "")).replace("Z", "+00:00"))
        at = said.timestamp()
    except ValueError:
        at = clock.now()
    return (instance, at + NOTICE_S) if instance else None


def _current(environ: Mapping[str, str]) -> Runner:
    """The runner of earlier calls in this process, which remembers the leases that it has seen;
    a new one where the cluster file has changed."""
    global _runner
    ws = open_workspace({"BURST_HOME": _HOME, **environ})
    if _runner is not None and _runner.workspace.cluster == ws.cluster:
        ws.store.close()
        return _runner
    if _runner is not None:
        _runner.workspace.store.close()
    pools, away = pools_of_the_function(ws), left_to_people(ws.cluster)
    _runner = Runner(ws, pools=pools, elsewhere=away, gone=open_gone(ws))
    return _runner
