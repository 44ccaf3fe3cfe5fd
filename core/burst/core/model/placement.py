"""Where it is trained: nodes, their leases, and the allocations of their slots."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from burst.core.model.base import Json, Part, Record
from burst.core.model.work import Failure
from burst.core.states import AllocationState, NodeState, Reason, Stateful, is_terminal


class ExitKind(StrEnum):
    COMPLETED = "completed"  # trained to its length
    DRAINED = "drained"  # left because it was asked to, with a checkpoint
    STOPPED = "stopped"  # ended itself early: early stopping, `set_stop_requested`
    INVALID_HP = "invalid_hp"  # the trial refused its hyperparameters
    CRASHED = "crashed"  # the user's process failed; counts against max_restarts
    INFRASTRUCTURE = "infrastructure"  # the world failed; never counts


class Exit(Part):
    """How an attempt ended."""

    kind: ExitKind
    failure: Failure | None = None
    durable: bool = True
    """Whether a drain's checkpoint was durable before the deadline."""


class DrainCause(StrEnum):
    PAUSE = "pause"
    STOP = "stop"  # the searcher has seen enough
    CANCEL = "cancel"
    KILL = "kill"  # no checkpoint, at once
    PREEMPT = "preempt"
    MOVE = "move"
    NOTICE = "notice"  # the node is about to be taken away
    NODE = "node"  # the node leaves
    LEASE = "lease"  # the agent could not renew its lease


class Drain(Part):
    """A request to leave: finish the batch, checkpoint, make it durable, release."""

    cause: DrainCause
    at: float
    deadline: float | None = None
    """After this the processes are killed; None is the pool's grace."""


class Share(Part):
    """The slots that an allocation holds on one node."""

    node: str
    slots: tuple[int, ...]
    """Indices of the node's slots."""


class Allocation(Record, Stateful):
    kind: ClassVar[str] = "allocation"

    state: AllocationState = AllocationState.REQUESTED
    trial: str
    experiment: str
    pool: str
    attempt: int
    """1 for a trial's first."""
    token: int
    shares: tuple[Share, ...]
    created: float
    started: float | None = None
    """When its ranks began to run."""
    ended: float | None = None
    restored_from: str = ""
    restored_batches: int = 0
    drain: Drain | None = None
    exit: Exit | None = None

    @property
    def parent(self) -> str:
        return self.trial

    @property
    def pool_name(self) -> str:
        return self.pool

    @property
    def live(self) -> bool:
        return not is_terminal(self.state)


class Slot(Part):
    """One accelerator, or one share of the CPUs, that the scheduler counts."""

    index: int
    device: Literal["cuda", "cpu"] = "cpu"
    name: str = ""
    memory: int = 0
    """Bytes."""


class Node(Record):
    """A machine that burst has asked for or that has joined. Its state follows from its dates."""

    kind: ClassVar[str] = "node"

    pool: str
    host: str = ""
    """The machine's name, once known."""
    slots: tuple[Slot, ...] = ()
    expected_slots: int
    requested: float
    launched: float | None = None
    registered: float | None = None
    ready: float | None = None
    cordoned: float | None = None
    draining: float | None = None
    terminating: float | None = None
    gone: float | None = None
    gone_reason: Reason | None = None
    idle_since: float | None = None
    handle: Mapping[str, Json] = Field(default_factory=dict)
    """What its pool needs to find it again (process id and start time, instance id, …)."""
    facts: Mapping[str, Json] = Field(default_factory=dict)
    """What its agent found: driver, memory, disk, versions, problems."""

    @property
    def state(self) -> NodeState:
        dates = (
            (self.gone, NodeState.GONE),
            (self.terminating, NodeState.TERMINATING),
            (self.draining, NodeState.DRAINING),
            (self.ready, NodeState.READY),
            (self.registered, NodeState.REGISTERED),
            (self.launched, NodeState.LAUNCHED),
        )
        return next((state for date, state in dates if date is not None), NodeState.REQUESTED)

    @property
    def pool_name(self) -> str:
        return self.pool

    @property
    def live(self) -> bool:
        return self.gone is None


class Lease(Record):
    """A node's right to act, for `length` seconds from each renewal; same id as the node.

    Every renewal is a write, so `version` is the heartbeat counter. An observer calls it expired
    when it has seen the same version for the whole length by its own clock; an agent counts the
    length from the moment before its last successful renewal, so it always stops first.
    """

    kind: ClassVar[str] = "lease"

    length: float = 30.0
    holder: str = ""
    """A random name of the agent process that holds it, so that it knows its own writes again."""
    revoked: bool = False
    """Set by an observer; the agent's next renewal is a conflict, and it stops its processes."""
