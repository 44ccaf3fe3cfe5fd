"""The states of every record, the edges between them, and the only way along an edge.

Each machine is one table. A terminal state has no edges. `advance` is the only writer of a state;
the reason for a change is data beside it, never a state of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from burst.core.errors import BurstError


class ExperimentState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    STOPPING = "stopping"  # on the way to a terminal state; `Experiment.ending` says to which
    COMPLETED = "completed"
    CANCELLED = "cancelled"  # by a person
    FAILED = "failed"  # by the world


class TrialState(StrEnum):
    WAITING = "waiting"  # wants an allocation
    RUNNING = "running"  # has one live allocation
    PAUSED = "paused"  # has no allocation and a pinned checkpoint
    STOPPING = "stopping"  # draining for good
    COMPLETED = "completed"
    STOPPED = "stopped"  # ended early by the searcher or by early stopping: a success
    CANCELLED = "cancelled"  # by a person
    FAILED = "failed"  # by the world


class AllocationState(StrEnum):
    REQUESTED = "requested"
    ASSIGNED = "assigned"  # nodes chosen; the agent has not taken it up yet
    STARTING = "starting"  # the agent prepares code and environment
    RUNNING = "running"  # the ranks run
    DRAINING = "draining"  # asked to finish the batch, checkpoint and leave
    RELEASED = "released"  # over; `Allocation.exit` says how
    LOST = "lost"  # its node vanished or was cut off; its token is fenced


class NodeState(StrEnum):
    """Derived from a node's dated facts, see `burst.core.model.Node.state`."""

    REQUESTED = "requested"
    LAUNCHED = "launched"
    REGISTERED = "registered"
    READY = "ready"
    DRAINING = "draining"
    TERMINATING = "terminating"
    GONE = "gone"


_E, _T, _A, _N = ExperimentState, TrialState, AllocationState, NodeState
_LIVE_ALLOCATION = (_A.DRAINING, _A.RELEASED, _A.LOST)

TABLES: Mapping[type[StrEnum], Mapping[StrEnum, tuple[StrEnum, ...]]] = {
    _E: {
        _E.ACTIVE: (_E.PAUSED, _E.STOPPING),
        _E.PAUSED: (_E.ACTIVE, _E.STOPPING),
        _E.STOPPING: (_E.COMPLETED, _E.CANCELLED, _E.FAILED),
        _E.COMPLETED: (),
        _E.CANCELLED: (),
        _E.FAILED: (),
    },
    _T: {
        _T.WAITING: (_T.RUNNING, _T.STOPPED, _T.CANCELLED),
        _T.RUNNING: (_T.WAITING, _T.PAUSED, _T.STOPPING, _T.COMPLETED, _T.FAILED),
        _T.PAUSED: (_T.WAITING, _T.STOPPED, _T.CANCELLED),
        _T.STOPPING: (_T.COMPLETED, _T.STOPPED, _T.CANCELLED, _T.FAILED),
        _T.COMPLETED: (),
        _T.STOPPED: (),
        _T.CANCELLED: (),
        _T.FAILED: (),
    },
    _A: {
        _A.REQUESTED: (_A.ASSIGNED, *_LIVE_ALLOCATION),
        _A.ASSIGNED: (_A.STARTING, *_LIVE_ALLOCATION),
        _A.STARTING: (_A.RUNNING, *_LIVE_ALLOCATION),
        _A.RUNNING: _LIVE_ALLOCATION,
        _A.DRAINING: (_A.RELEASED, _A.LOST),
        _A.RELEASED: (),
        _A.LOST: (),
    },
    _N: {
        _N.REQUESTED: (_N.LAUNCHED, _N.TERMINATING, _N.GONE),
        _N.LAUNCHED: (_N.REGISTERED, _N.TERMINATING, _N.GONE),
        _N.REGISTERED: (_N.READY, _N.DRAINING, _N.TERMINATING, _N.GONE),
        _N.READY: (_N.DRAINING, _N.TERMINATING, _N.GONE),
        _N.DRAINING: (_N.TERMINATING, _N.GONE),
        _N.TERMINATING: (_N.GONE,),
        _N.GONE: (),
    },
}


class Reason(BaseModel):
    """Why a state changed: a stable code for programs and words for people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    text: str = ""

    def __str__(self) -> str:
        return self.text or self.code


class Transition(BaseModel):
    """One change of state, as the event that records it carries it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    subject: str
    kind: str
    before: str
    after: str
    reason: Reason
    at: float


class IllegalTransition(BurstError):
    """An edge that the table does not have: a defect in burst, never in the user's work."""


def is_terminal(state: StrEnum) -> bool:
    """Whether nothing can follow `state`."""
    return not TABLES[type(state)][state]


def can_advance(before: StrEnum, after: StrEnum) -> bool:
    return after in TABLES[type(before)][before]


class Stateful(BaseModel):
    """A record with a state of its own. Its `state` is written by `advance` and nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    state: StrEnum
    reason: Reason = Reason(code="created")
    state_since: float


R = TypeVar("R", bound=Stateful)


def advance(record: R, to: StrEnum, reason: Reason, now: float) -> tuple[R, Transition]:
    """`record` in state `to`, and the transition to store as an event in the same commit.

    Raises:
        IllegalTransition: if the table has no such edge.
    """
    if type(to) is not type(record.state) or not can_advance(record.state, to):
        raise IllegalTransition(
            f"{record.id} cannot go from {record.state} to {to}",
            why=f"asked for because: {reason}",
        )
    transition = Transition(
        subject=record.id,
        kind=type(record).__name__.lower(),
        before=str(record.state),
        after=str(to),
        reason=reason,
        at=now,
    )
    changed = record.model_copy(update={"state": to, "reason": reason, "state_since": now})
    return changed, transition
