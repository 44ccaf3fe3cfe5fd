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
from burst.core.logs import read_logs
from burst.core.model import Allocation

log = logging.getLogger(__name__)

TAIL_LINES = 2000
"""How many of an attempt's last lines are looked at."""


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
    try:
        lines = read_logs(blobs, allocation.trial, attempt=allocation.attempt)
        tail = deque((line.text for line in lines), maxlen=TAIL_LINES)
    except BurstError as error:
        log.warning("log policies of %s: %s", allocation.trial, error.what)
        return None
    return judge(acting, tail, tuple(share.node for share in allocation.shares))


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
