"""A machine that burst has launched, from its boot to its end: `python -m burst.runner.node`.

It asks the metadata service which instance it is and which request it came of, becomes one of the
nodes of that request, and runs that node's agent. Whatever ends the agent ends the machine.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from burst.core.aws.names import CLUSTER, LAUNCH, POOL
from burst.core.clock import Clock, SystemClock
from burst.core.config.cluster import AwsPool
from burst.core.errors import BurstError, ExitCode, Refused, Unreachable
from burst.core.model import Node
from burst.core.states import Reason
from burst.core.workspace import Workspace, open_workspace
from burst.runner.agent.serving.main import EXPECTED_ENDS, serve
from burst.runner.agent.serving.registration import leave, pool_of
from burst.runner.agent.site import Settings
from burst.runner.node.identity import Mine, Over, claim, surplus
from burst.runner.node.imds import Identity, Imds
from burst.runner.node.instance import Instance
from burst.runner.node.power import end_machine
from burst.runner.node.timekeeping import check_clock, time_url

log = logging.getLogger(__name__)

T = TypeVar("T")

SETTINGS = Settings(lease=60.0)
STORE_PATIENCE_S = 900.0
"""How long a machine stays up while its store is away."""
NODE_PATIENCE_S = 120.0
"""How long it waits for a node of its request to become free, or to be seen."""
SETTLE_S = 5.0
"""How long it leaves the choice to the runner, who has just been told of the machine."""
_IMDS_PATIENCE_S = 60.0
_LOOK_EVERY_S = 2.0
_PAUSE_S = 5.0


def main() -> int:
    """Be a node until there is a reason to leave, then end the machine; returns the status.

    A machine that does not prove to be one that burst launched is left alone: it may be anybody's.
    """
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    logging.getLogger("botocore").setLevel(logging.WARNING)
    clock = SystemClock()
    try:
        imds = Imds()
        place = identify(imds, clock)
    except BurstError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
        return int(error.exit_code)
    try:
        reason = live(place, imds, os.environ, clock)
        log.info("the machine ends: %s", reason)
        return int(ExitCode.OK if reason.code in EXPECTED_ENDS else ExitCode.FAILED)
    except BurstError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
        return int(error.exit_code)
    except Exception:
        log.exception("the agent has a defect")
        return int(ExitCode.FAILED)
    finally:
        end_machine(clock)


@dataclass(frozen=True)
class Place:
    """Which instance this is, and what its tags say of whose it is."""

    identity: Identity
    cluster: str
    pool: str
    launch: str


def identify(imds: Imds, clock: Clock) -> Place:
    """Which machine this is.

    Raises:
        Unreachable: no metadata service answers.
        Refused: it was not launched by burst.
    """
    identity = patiently(imds.identity, clock, _IMDS_PATIENCE_S)
    return Place(identity, *(_tag(identity, key) for key in (CLUSTER, POOL, LAUNCH)))


def live(place: Place, imds: Imds, environ: Mapping[str, str], clock: Clock) -> Reason:
    """From who this machine is to why it is not wanted any more.

    Raises:
        BurstError: it cannot be a node, and why.
    """
    identity = place.identity
    asked = time_url(environ, identity.region)
    check_clock(asked, clock)
    ws = patiently(lambda: open_workspace(environ), clock, STORE_PATIENCE_S)
    config = _config(ws, place)
    node = find_node(ws, place.launch, place.pool, identity.instance, clock, STORE_PATIENCE_S)
    log.info("this is %s, node %s of pool %s", identity.instance, node.id, place.pool)
    with Instance(identity, imds, clock, efa=config.efa, asked=asked, environ=environ) as host:
        try:
            return stay(ws, node, host, clock, SETTINGS, STORE_PATIENCE_S)
        except BurstError as error:
            _say_why(ws, node, error.what, clock)
            raise
        except Exception as error:
            _say_why(ws, node, f"its agent has a defect: {error}", clock)
            raise


def stay(
    ws: Workspace,
    node: Node,
    host: Instance,
    clock: Clock,
    settings: Settings,
    patience: float,
) -> Reason:
    """Serve the node; again after the store was away, if the node is still wanted then."""
    while True:
        reason = patiently(
            lambda: serve(ws, node.id, node.pool, settings, clock, host), clock, patience
        )
        if reason.code != "lease" or host.reclaim is not None:
            return reason
        log.info("waiting for the store: %s", reason)
        found = patiently(lambda: ws.store.get(Node, node.id), clock, patience)
        if found.draining is not None or found.terminating is not None or found.gone is not None:
            return Reason(code="gone", text="the node was given up")


def find_node(
    ws: Workspace, launch: str, pool: str, instance: str, clock: Clock, patience: float
) -> Node:
    """The node that this machine is.

    Raises:
        Refused: there is none for it: it is one too many, or was given up.
        Unreachable: the store did not answer for `patience` seconds.
    """
    began = clock.monotonic()
    while True:
        waited = clock.monotonic() - began
        ask = partial(claim, ws.store, launch, pool, instance, clock, take=waited >= SETTLE_S)
        found = patiently(ask, clock, patience)
        if isinstance(found, Mine):
            return found.node
        if isinstance(found, Over) or waited >= NODE_PATIENCE_S:
            raise surplus(instance, launch)
        clock.sleep(_LOOK_EVERY_S)


def patiently(ask: Callable[[], T], clock: Clock, seconds: float) -> T:
    """What `ask` returns, tried again while it is out of reach, for `seconds` at most.

    Raises:
        Unreachable: it was, to the end.
        BurstError: whatever else it raises, at once.
    """
    until = clock.monotonic() + seconds
    while True:
        try:
            return ask()
        except Unreachable as error:
            if clock.monotonic() >= until:
                raise
            log.warning("waiting: %s", error.what)
            clock.sleep(_PAUSE_S)


def _tag(identity: Identity, key: str) -> str:
    if key not in identity.tags:
        raise Refused(
            f"instance {identity.instance} does not say what it is for",
            why=f"its metadata has no tag {key}",
            mend="launch it by burst, from a template with InstanceMetadataTags: enabled",
        )
    return identity.tags[key]


def _config(ws: Workspace, place: Place) -> AwsPool:
    if ws.cluster.cluster != place.cluster:
        raise Refused(
            f"instance {place.identity.instance} belongs to cluster {place.cluster!r}",
            why=f"the cluster file that it found is of {ws.cluster.cluster!r}",
            mend="see that BURST_CLUSTER in its node.env names the right one",
        )
    config = pool_of(ws.cluster.pools, place.pool)
    if not isinstance(config, AwsPool):
        raise Refused(
            f"pool {place.pool!r} is not of instances in AWS",
            why=f"burst.yaml says that it is of kind {config.kind}",
            mend="end this machine, or give the pool its old name again",
        )
    return config


def _say_why(ws: Workspace, node: Node, why: str, clock: Clock) -> None:
    """Best effort: whoever does not hear it sees the lease run out."""
    try:
        leave(ws, node.id, None, Reason(code="failed", text=why), clock)
    except BurstError as error:
        log.warning("telling the store why the machine ends: %s", error.what)
