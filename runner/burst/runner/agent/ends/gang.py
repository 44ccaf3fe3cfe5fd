"""A gang over several nodes, as each of their agents sees it. Pure.

Every agent runs its share; the order of the shares is that of the ranks. How a node's part ended
is written into `Allocation.ends`, and whoever writes the last one releases the allocation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from burst.core.model import Allocation, Exit, ExitKind, Failure
from burst.core.states import AllocationState
from burst.runner.agent.ends.causes import first_cause, left_alone

_WELL = (ExitKind.COMPLETED, ExitKind.STOPPED)
_FAILED = (ExitKind.CRASHED, ExitKind.INVALID_HP)

LEFT_BEHIND = Exit(kind=ExitKind.INFRASTRUCTURE, durable=False)
"""How a part ends that its agent ended because another node's had ended: it says nothing of the
cause."""


def is_gang(allocation: Allocation) -> bool:
    """Whether it is spread over several nodes."""
    return len(allocation.shares) > 1


def nodes_of(allocation: Allocation) -> tuple[str, ...]:
    """Its nodes in the order of their ranks."""
    return tuple(share.node for share in allocation.shares)


def others_of(allocation: Allocation, node: str) -> tuple[str, ...]:
    return tuple(each for each in nodes_of(allocation) if each != node)


def takes_up(allocation: Allocation, node: str) -> bool:
    """Whether the agent of `node`, which does not run it, is to begin its part.

    An agent of the same gang may have taken it up before. Where this node's own has, and ended
    since, `network` tells.
    """
    if not is_gang(allocation):
        return allocation.state is AllocationState.ASSIGNED
    begun = node in allocation.network or node in allocation.ends
    fresh = allocation.state in (AllocationState.ASSIGNED, AllocationState.STARTING)
    return fresh and not begun


def is_over(allocation: Allocation, node: str) -> bool:
    """Whether the part of `node` has ended, though others of the gang may run."""
    return node in allocation.ends


def is_broken(allocation: Allocation, node: str, *, runs: bool) -> bool:
    """Whether the gang can do no more, so that the part of `node` has to end.

    Before its ranks run, it needs every other node. Then it may be that another has only ended
    before, since all of them came to their end; unless it never had any ranks.
    """
    for other, end in allocation.ends.items():
        if other == node:
            continue
        bad = end.kind in _FAILED or end.kind is ExitKind.INFRASTRUCTURE
        forced = end.kind is ExitKind.DRAINED and not end.durable
        if not runs or bad or forced or other not in allocation.network:
            return True
    return False


def never_met(allocation: Allocation, node: str) -> bool:
    """Whether another node left before it had ranks, so that none of the gang has trained."""
    return any(
        other != node and other not in allocation.network and end.kind is ExitKind.DRAINED
        for other, end in allocation.ends.items()
    )


def combine(ends: Mapping[str, Exit], order: Sequence[str]) -> Exit:
    """How a gang ended whose parts ended so.

    A failure on any node is the gang's, and of several the one that the others came of; but who
    only lost its peers, because they were told to leave or their machine failed, has not failed.
    Completed are all or none, and a drain is durable if it is so everywhere.

    Args:
        ends: of every node.
        order: the nodes, in the order of their ranks.
    """
    parts = [ends[node] for node in order]
    failed = [end for end in parts if end.kind in _FAILED]
    own = [end for end in failed if not (end.failure and left_alone(end.failure))]
    if own:
        return _first(own)
    broken = [end for end in parts if end.kind is ExitKind.INFRASTRUCTURE]
    told = [end for end in broken if end.failure is not None]
    if told:
        return _first(told)
    if any(end.kind is ExitKind.DRAINED for end in parts):
        durable = all(end.kind is ExitKind.DRAINED and end.durable for end in parts)
        return Exit(kind=ExitKind.DRAINED, durable=durable)
    if failed:
        return _first(failed)
    if broken:
        text = "a node's part of the gang ended, and it is not known why"
        return Exit(kind=ExitKind.INFRASTRUCTURE, failure=Failure(kind="gang", message=text))
    return parts[0].model_copy(update={"durable": all(end.durable for end in parts)})


def _first(ends: Sequence[Exit]) -> Exit:
    """Of parts that failed, the one whose failure came first."""
    dated = [(end.failure.at or 0.0, end.failure) for end in ends if end.failure is not None]
    cause = first_cause(dated)
    return next((end for end in ends if end.failure is cause), ends[0])
