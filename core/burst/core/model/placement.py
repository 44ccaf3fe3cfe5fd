"""Where it is trained: nodes, their leases, and the allocations of their slots."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from burst.core.model.base import Json, Part, Record
from burst.core.model.work import Failure
from burst.core.states import AllocationState, NodeState, Reason, Stateful, is_terminal

KEPT_UNTIL = "kept_until"
"""In a node's facts: until when it stays, without new work, because an attempt failed there."""


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
    text: str = ""
    """What the trial says of why it stopped itself; may be empty."""
    code: str = ""
    """The same as one word: `early_stopping`."""


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
    rendezvous: str = ""
    """Where the ranks of several nodes meet, as `address:port` on the first share's node, which
    writes it; empty until then, and for one node."""
    network: Mapping[str, Json] = Field(default_factory=dict)
    """By node: what the ranks there talk over (interface, provider, settings), for the record."""
    ends: Mapping[str, Exit] = Field(default_factory=dict)
    """By node: how its part of a gang ended. The last one releases the allocation."""

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
    launch: str = ""
    """The request to its pool that it came of; the nodes of one request share it, and so do the
    machines, as a tag. Empty where the machine joined by itself."""
    whole: bool = False
    """Whether the nodes of its request are wanted together or not at all."""
    ask: Mapping[str, Json] = Field(default_factory=dict)
    """What the pool is asked for, in the pool's own terms, fixed with the intent: asking again is
    the same request, whoever does it."""
    cell: str = ""
    """Nodes that can work as one gang have the same (zone, type and placement group); empty where
    all of the pool's can."""
    price: float | None = None
    """US dollars an hour, as known when it was launched."""
    requested: float
    launched: float | None = None
    registered: float | None = None
    ready: float | None = None
    cordoned: float | None = None
    draining: float | None = None
    terminating: float | None = None
    gone: float | None = None
    gone_reason: Reason | None = None
    """Why it is gone, or has to go."""
    noticed: float | None = None
    """When its agent heard that the machine will be taken away."""
    reclaim_at: float | None = None
    """When it will be, as the notice says."""
    idle_since: float | None = None
    wanted_at: float | None = None
    """When the plan last said that it is to stay although it has no work; a mark that changes, by
    the clock of whoever wrote it."""
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
    def kept_until(self) -> float | None:
        """Until when it stays to be looked at; None if it is not kept."""
        found = self.facts.get(KEPT_UNTIL)
        return float(found) if isinstance(found, int | float) else None

    @property
    def pool_name(self) -> str:
        return self.pool

    @property
    def live(self) -> bool:
        return self.gone is None


class RefusalKind(StrEnum):
    """Why a pool gave no machine, which decides who waits for how long."""

    CAPACITY = "capacity"  # there is none now: that offer rests
    QUOTA = "quota"  # the account may not have more: every offer of the class rests
    NETWORK = "network"  # the subnet has no address left: that subnet rests
    PERMISSION = "permission"  # a person has to act
    THROTTLE = "throttle"  # asked too often: the same request again, later
    BUG = "bug"  # anything else: the pool rests, and its own words are shown


class Refusal(Part):
    """What a pool said the last time that it gave no machine of an offer."""

    kind: RefusalKind
    code: str
    """The pool's own, as it came."""
    text: str
    """The pool's own words, with the quota's name where it is one."""
    tries: int = 1
    """How often in a row."""
    at: float
    until: float
    """Before this date the offer is not asked for."""


class Supply(Record):
    """What is known of what a pool can give; its id is the pool's name.

    Its version gives the right to launch: it is written with every intent, so that of two runners
    that saw the same demand one asks.
    """

    kind: ClassVar[str] = "supply"

    refusals: Mapping[str, Refusal] = Field(default_factory=dict)
    """By offer, in the pool's own terms (`spot/us-east-1a/p5.48xlarge`, parts may be `*`)."""
    failures: int = 0
    """Machines in a row that ended, or had to be ended, before they were ready."""
    failure: str = ""
    """What the last of them said, with the end of its console."""
    stopped: Reason | None = None
    """Why no more machines are asked for until a person says so."""


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
