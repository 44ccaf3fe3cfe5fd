"""A machine that burst has launched, from its boot to its end: `python -m burst.runner.node`.

It asks the metadata service which instance it is and which request it came of, becomes one of the
nodes of that request, and runs that node's agent. Whatever ends the agent ends the machine.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from burst.core.aws.names import CLUSTER, LAUNCH, POOL
from burst.core.clock import Clock, SystemClock
from burst.core.config.cluster import AwsPool
from burst.core.errors import BurstError, ExitCode, Refused, Unreachable
from burst.core.model import Node
from burst.core.states import Reason
from burst.core.workspace import Workspace, open_workspace
from burst.runner.agent.main import EXPECTED_ENDS, serve
from burst.runner.agent.registration import leave, pool_of
from burst.runner.agent.site import Settings
from burst.runner.node.checks import MOST_SKEW_S, skew_in_words, skew_of
from burst.runner.node.identity import Mine, Over, claim, surplus
from burst.runner.node.imds import Identity, Imds
from burst.runner.node.instance import Instance
from burst.runner.node.power import end_machine

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
_CLOCK_PATIENCE_S = 60.0
_LOOK_EVERY_S = 2.0
_PAUSE_S = 5.0


def main() -> int:
    """Be a node until there is a reason to leave, then end the machine; returns the status."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    logging.getLogger("botocore").setLevel(logging.WARNING)
    clock = SystemClock()
    try:
        reason = live(os.environ, clock, SETTINGS, STORE_PATIENCE_S)
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


def live(environ: Mapping[str, str], clock: Clock, settings: Settings, patience: float) -> Reason:
    """From who this machine is to why it is not wanted any more.

    Args:
        patience: seconds that it stays up while its store is away.

    Raises:
        BurstError: it cannot be a node, and why.
    """
    imds = Imds(environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"))
    identity = patiently(imds.identity, clock, _IMDS_PATIENCE_S)
    launch, pool = _tag(identity, LAUNCH), _tag(identity, POOL)
    asked = time_url(environ, identity.region)
    check_clock(asked, clock)
    ws = patiently(lambda: open_workspace(environ), clock, patience)
    config = _config(ws, identity, pool)
    node = find_node(ws, launch, pool, identity.instance, clock, patience)
    log.info("this is %s, node %s of pool %s", identity.instance, node.id, pool)
    with Instance(identity, imds, clock, efa=config.efa, asked=asked, environ=environ) as host:
        try:
            return stay(ws, node, host, clock, settings, patience)
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


def time_url(environ: Mapping[str, str], region: str) -> str:
    """Whose answers tell AWS's time: the store's or the blobs' service; empty for neither."""
    used = environ.get("BURST_STORE", ""), environ.get("BURST_BLOBS", "")
    for scheme, service in (("dynamodb:", "dynamodb"), ("s3:", "s3")):
        if any(url.startswith(scheme) for url in used):
            import boto3

            # Only its address is wanted, so nobody's credentials are looked for.
            nobody = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
            client = boto3.Session().client(service, region_name=region, **nobody)
            return str(client.meta.endpoint_url)
    return ""


def check_clock(asked: str, clock: Clock) -> None:
    """See that this machine's clock is near AWS's; one that has just booted may be set soon.

    Raises:
        Refused: it is not, and stays so.
    """
    until = clock.monotonic() + _CLOCK_PATIENCE_S
    while asked:
        skew = skew_of(asked)
        if skew is None or abs(skew) <= MOST_SKEW_S:
            return
        if clock.monotonic() >= until:
            raise Refused("this machine's clock is wrong", why=skew_in_words(skew))
        clock.sleep(_PAUSE_S)


def _tag(identity: Identity, key: str) -> str:
    if key not in identity.tags:
        raise Refused(
            f"instance {identity.instance} does not say what it is for",
            why=f"its metadata has no tag {key}",
            mend="launch it by burst, from a template with InstanceMetadataTags: enabled",
        )
    return identity.tags[key]


def _config(ws: Workspace, identity: Identity, pool: str) -> AwsPool:
    cluster = _tag(identity, CLUSTER)
    if ws.cluster.cluster != cluster:
        raise Refused(
            f"instance {identity.instance} belongs to cluster {cluster!r}",
            why=f"the cluster file that it found is of {ws.cluster.cluster!r}",
            mend="see that BURST_CLUSTER in its node.env names the right one",
        )
    config = pool_of(ws.cluster.pools, pool)
    if not isinstance(config, AwsPool):
        raise Refused(
            f"pool {pool!r} is not of instances in AWS",
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
