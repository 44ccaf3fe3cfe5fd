"""Which of a gang's failures was the cause, and which came of a rank that was gone. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from enum import IntEnum

from burst.core.model import Failure
from burst.runner.agent.ends.classify import ending, signal_of

_COLLECTIVES = ("RuntimeError", "DistError", "DistBackendError", "DistNetworkError")
_PEER_IS_GONE = re.compile(
    r"closed by peer|reset by peer|broken pipe|connection was likely closed|socket closed"
    r"|failed to (?:recv|send)|connectFullMesh|remote process exited|communicator was aborted"
    r"|nccl(?:Remote|System)Error|collective operation timeout|wait timeout after"
    r"|timed out waiting \d+\s?ms",
    re.IGNORECASE,
)
"""What gloo, NCCL and torch's stores say in the ranks that are left."""


class _Origin(IntEnum):
    """How likely a rank's failure began in that rank, the likeliest first."""

    KILLED = 0
    RAISED = 1
    ENDED = 2
    """It said nothing of why, or aborted, as NCCL's watchdog does for the sake of another."""
    LEFT_ALONE = 3


def first_cause(found: Iterable[tuple[float, Failure]]) -> Failure | None:
    """Of a gang's failures, each with its date, the one that the others came of; None for none.

    The dates alone do not tell: who loses a peer says so at once, and of a rank that was killed
    only the launcher tells, a moment later.
    """
    ranked = sorted(found, key=lambda pair: (_origin(pair[1]), pair[0]))
    return ranked[0][1] if ranked else None


def told(
    failure: Failure, log: str, *, alone: bool = False, out_of_memory: bool = False
) -> Failure:
    """A failure that only the launcher noted, in words, with what its rank's log has of it.

    They name the rank, unless it is the only one and so nobody's peer.
    """
    if failure.message or failure.traceback:
        return failure
    found = ending(failure.exit_code, log, failure.rank, out_of_memory)
    if alone or found.kind != failure.kind:
        return found
    return found.model_copy(update={"message": f"rank {failure.rank} {found.message}"})


def left_alone(failure: Failure) -> bool:
    """Whether a rank failed for want of another that was gone."""
    kind = failure.kind.rpartition(".")[2]
    return kind in _COLLECTIVES and _PEER_IS_GONE.search(failure.message) is not None


def _origin(failure: Failure) -> _Origin:
    kind = failure.kind.rpartition(".")[2]
    if left_alone(failure):
        return _Origin.LEFT_ALONE
    number = signal_of(failure.exit_code)
    if number is not None and number is not signal.SIGABRT and kind == number.name:
        return _Origin.KILLED
    if number is not None or kind.startswith("exit "):
        return _Origin.ENDED
    return _Origin.RAISED
