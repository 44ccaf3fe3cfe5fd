"""How long what runs in a pool runs until it is lost without warning.

A node is lost when its machine or its agent vanishes; one that leaves after a notice has drained,
and lost nothing. What a pool's nodes did so far is weighed against what pools of its kind usually
do: the kind's own mean counts as one loss after so many hours, so a new pool begins there, and one
with a history is judged by that. (It is the mean of a gamma prior of shape 1, for losses that come
at random.) A trial that crashes by itself is lost too, and has its own history.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from burst.core.config.cluster import ClusterConfig, LocalPool, PoolConfig, loses_nodes
from burst.core.errors import BurstError
from burst.core.model import Allocation, ExitKind, Node
from burst.core.states import AllocationState
from burst.core.store.port import Store

log = logging.getLogger(__name__)

HOUR = 3600.0
TAKEN_S = 4 * HOUR
"""Between two losses of a node that may be taken away at any time, until a pool shows its own."""
PERSONAL_S = 24 * HOUR
"""The same of a machine that somebody works at: it is restarted, closed, runs out of memory."""
SERVED_S = 7 * 24 * HOUR
"""The same of a machine in a rack. Machines with 8 GPUs fail far less often by themselves (Meta's
Llama 3 met 419 unexpected interruptions of about 2,000 in 54 days, arXiv:2407.21783), but people,
drivers and file systems end jobs too."""
_NEWEST = 200
"""Nodes looked at, of all pools; attempts of the trial."""
_LOST = ("dead", "lease")
"""Codes of the reason for which a node is gone without having left."""
_CRASHES = (ExitKind.CRASHED, ExitKind.INFRASTRUCTURE)
_SHORTEST_HISTORY_S = HOUR


def usual(pool: PoolConfig | None) -> float:
    """Seconds between two losses of one node in pools of this kind."""
    if pool is not None and loses_nodes(pool):
        return TAKEN_S
    return PERSONAL_S if pool is None or isinstance(pool, LocalPool) else SERVED_S


def of_a_node(nodes: Iterable[Node], usually: float, now: float) -> float:
    """Seconds between two losses of one node, from the records of a pool's nodes. Pure."""
    seconds, losses = usually, 1
    for node in nodes:
        if node.ready is None:
            continue
        end = now if node.gone is None else node.gone
        seconds += max(0.0, end - node.ready)
        losses += node.gone_reason is not None and node.gone_reason.code in _LOST
    return seconds / losses


def of_a_trial(attempts: Iterable[Allocation], now: float) -> float | None:
    """Seconds between two failures of a trial's own attempts; None if none has failed. Pure."""
    seconds, failures = 0.0, 0
    for attempt in attempts:
        if attempt.started is None:
            continue
        seconds += max(0.0, (attempt.ended or now) - attempt.started)
        lost = attempt.state is AllocationState.LOST  # which its node's record tells already
        failures += not lost and attempt.exit is not None and attempt.exit.kind in _CRASHES
    return max(seconds, _SHORTEST_HISTORY_S) / failures if failures else None


def of_a_gang(one_node: float, nodes: int, trial: float | None) -> float:
    """Seconds until the first of a gang's nodes is lost, or the trial fails by itself: the rates
    of what happens independently add up."""
    rate = nodes / one_node + (1.0 / trial if trial else 0.0)
    return 1.0 / rate


def seconds_between_losses(
    store: Store, cluster: ClusterConfig, allocation: Allocation, now: float
) -> float:
    """What the attempt `allocation` has to expect. Reads the newest nodes of the cluster and the
    newest attempts of its trial; where the store does not answer, it is what is usual."""
    usually = usual(cluster.pools.get(allocation.pool))
    gang = max(1, len({share.node for share in allocation.shares}))
    try:
        one_node, trial = _observed(store, allocation, usually, now)
    except BurstError as error:  # it only chooses how often to checkpoint
        log.warning("reading the losses of pool %s: %s", allocation.pool, error.what)
        one_node, trial = usually, None
    return of_a_gang(one_node, gang, trial)


def _observed(
    store: Store, allocation: Allocation, usually: float, now: float
) -> tuple[float, float | None]:
    nodes = store.children(Node, "", newest_first=True, limit=_NEWEST)
    of_pool = (node for node in nodes if node.pool == allocation.pool)
    attempts = store.children(Allocation, allocation.trial, newest_first=True, limit=_NEWEST)
    return of_a_node(of_pool, usually, now), of_a_trial(attempts, now)
