"""Log policies: what the last lines of a crashed attempt say about trying again."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from burst.core.blobs.port import Blobs
from burst.core.config.experiment import LogPolicy
from burst.core.errors import BurstError
from burst.core.logs import LAUNCHER, is_launcher, read_logs
from burst.core.model import Allocation

log = logging.getLogger(__name__)

TAIL_LINES = 2000
"""How many of the last lines of each node of an attempt are looked at."""


@dataclass(frozen=True)
class Verdict:
    stop_retrying: str = ""
    """Why the trial is not to be tried again; empty if it may be."""
    blocked: tuple[str, ...] = ()
    """Nodes on which it is not to be tried again."""


def apply_policies(
    blobs: Blobs, policies: Sequence[LogPolicy], allocation: Allocation
) -> Verdict | None:
    """What `policies` say of an attempt that crashed; None if none applies.

    Logs that cannot be read are as good as logs that match nothing: a policy must never keep a
    trial from going on.
    """
    acting = [policy for policy in policies if policy.action is not None]
    if not acting:
        return None
    tails: dict[str, deque[str]] = {}
    try:
        for line in read_logs(blobs, allocation.trial, attempt=allocation.attempt):
            tail = tails.setdefault(node_of(allocation, line.rank), deque(maxlen=TAIL_LINES))
            tail.append(line.text)
    except BurstError as error:
        log.warning("log policies of %s: %s", allocation.trial, error.what)
        return None
    found = [judge(acting, tail, (node,)) for node, tail in tails.items()]
    verdicts = [verdict for verdict in found if verdict is not None]
    if not verdicts:
        return None
    stop = next((each.stop_retrying for each in verdicts if each.stop_retrying), "")
    return Verdict(stop, tuple(node for each in verdicts for node in each.blocked))


def node_of(allocation: Allocation, rank: int) -> str:
    """The node that wrote the log of a rank, or of a launcher. Pure."""
    ranks = max(1, len(allocation.shares[0].slots))
    number = LAUNCHER - rank if is_launcher(rank) else rank // ranks
    return allocation.shares[min(number, len(allocation.shares) - 1)].node


def judge(
    policies: Sequence[LogPolicy], lines: Sequence[str] | deque[str], nodes: tuple[str, ...]
) -> Verdict | None:
    """Pure: the policies against the lines of an attempt on `nodes`."""
    stop = ""
    blocked: tuple[str, ...] = ()
    for policy in policies:
        pattern = re.compile(policy.pattern)
        if not any(pattern.search(line) for line in lines):
            continue
        if policy.action == "cancel_retries":
            stop = f"not tried again: log policy {policy.name or policy.pattern!r}"
        else:
            blocked = nodes
    return Verdict(stop, blocked) if stop or blocked else None
