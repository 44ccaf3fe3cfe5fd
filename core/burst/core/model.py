"""The records: what burst knows, one frozen model a kind.

A record is a value. To change one, make a copy and commit it to a store under the version that was
read (`burst.core.store.port`). Times are seconds since the Unix epoch. Not-a-number and infinities
are written as the strings "NaN", "Infinity" and "-Infinity", here and everywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from burst.core.states import (
    AllocationState,
    ExperimentState,
    NodeState,
    Reason,
    Stateful,
    TrialState,
    is_terminal,
)

Json = Any  # a value that JSON can hold; recursive aliases do not survive pydantic's schema


class Part(BaseModel):
    """A frozen piece of a record."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Record(Part):
    """What a store keeps: an id, a version that the store counts, and what it is found by."""

    kind: ClassVar[str]

    id: str
    version: int = 0
    """How often it was written; 0 is a record that no store holds yet. The store counts it."""

    @property
    def parent(self) -> str:
        """The id under which `Store.children` lists it; empty for those at the top."""
        return ""

    @property
    def pool_name(self) -> str:
        """The pool whose live records it belongs to; empty where it has none."""
        return ""

    @property
    def live(self) -> bool:
        """Whether reconcile has to look at it. Cost follows what is live, never history."""
        return False


# --- experiments and trials ------------------------------------------------------------------


class Code(Part):
    """The user's code: a content-addressed archive in the blobs, and where it came from."""

    digest: str
    """SHA-256 of the archive; its key is `code/<digest>.tar.gz`."""
    size: int
    """Bytes of the archive."""
    commit: str = ""
    dirty: bool = False
    """Whether the working tree differed from `commit`."""


class Experiment(Record, Stateful):
    kind: ClassVar[str] = "experiment"

    state: ExperimentState = ExperimentState.ACTIVE
    name: str
    owner: str
    created: float
    config: Mapping[str, Json]
    """The normalised experiment file (`ExperimentConfig.model_dump(mode="json")`)."""
    source: str = ""
    """The file as it was written."""
    code: Code
    labels: tuple[str, ...] = ()
    search: Mapping[str, Json] = Field(default_factory=dict)
    """The searcher's whole state, saved in the same commit as the event it has taken in."""
    ending: Literal["completed", "cancelled", "failed"] | None = None
    """While stopping: the terminal state it is on the way to."""
    trials: int = 0
    """How many trials were created so far; the next one's number."""

    @property
    def live(self) -> bool:
        return not is_terminal(self.state)


class Lengths(Part):
    """How far a trial has trained, in every unit."""

    batches: int = 0
    records: int = 0
    epochs: float = 0.0
    seconds: float = 0.0
    """Seconds spent training, summed over attempts, without what a lost attempt repeated."""


class MetricPoint(Part):
    batches: int
    metrics: Mapping[str, float]
    at: float


class Failure(Part):
    """The first error of an attempt, as the user should see it."""

    kind: str = ""
    """The exception's class, or the signal's or exit code's name."""
    message: str = ""
    traceback: str = ""
    """The user's own traceback, or the last lines that the process wrote."""
    rank: int | None = None
    exit_code: int | None = None


class Trial(Record, Stateful):
    kind: ClassVar[str] = "trial"

    state: TrialState = TrialState.WAITING
    experiment: str
    number: int
    request: str = ""
    """The searcher's own name for it."""
    hparams: Mapping[str, Json] = Field(default_factory=dict)
    seed: int
    slots: int
    pools: tuple[str, ...]
    """Where it may run, best first."""
    pool: str = ""
    """Where it runs or ran last."""
    created: float
    queued: float
    """Since when it waits, for the order of the queue."""
    token: int = 0
    """The fence: writes under an older one are refused. Grows with each allocation and loss."""
    attempts: int = 0
    """Allocations so far."""
    restarts: int = 0
    """Attempts that crashed; what `max_restarts` bounds."""
    done: Lengths = Lengths()
    target_batches: int | None = None
    """The whole length in batches, once the harness knows it."""
    latest: Mapping[str, MetricPoint] = Field(default_factory=dict)
    """The newest point of each metric group (`training`, `validation`)."""
    best: MetricPoint | None = None
    """The best validation by the searcher's metric."""
    validations: int = 0
    """Validations reported, counted by the harness, so that the searcher misses none."""
    checkpoint: str = ""
    """The newest durable checkpoint's id."""
    checkpoint_at: float | None = None
    wait: Reason | None = None
    """While waiting: why, in words."""
    wait_until: float | None = None
    """While waiting: when the plan will look again."""
    wanted: TrialState | None = None
    """While running or stopping: the state that the running allocation's drain leads to."""
    failure: Failure | None = None
    blocked_nodes: tuple[str, ...] = ()
    """Nodes that a log policy has excluded."""

    @property
    def parent(self) -> str:
        return self.experiment

    @property
    def live(self) -> bool:
        return self.state in (TrialState.WAITING, TrialState.RUNNING, TrialState.STOPPING)


# --- allocations and nodes ---------------------------------------------------------------------


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


# --- checkpoints, metrics, events, models --------------------------------------------------------


class Checkpoint(Record):
    """A durable checkpoint: written to the store after its manifest, with the trial's token."""

    kind: ClassVar[str] = "checkpoint"

    trial: str
    experiment: str
    attempt: int
    batches: int
    created: float
    url: str
    """The blobs that hold it; `manifest` is a key in them."""
    manifest: str
    size: int
    """Bytes of all its files."""
    metrics: Mapping[str, float] = Field(default_factory=dict)
    """Validation metrics at the same batch; empty where there was no validation."""
    pinned: bool = False
    pin_reason: str = ""
    deleted: float | None = None
    damaged: str = ""
    """What a restore or a verification found wrong; empty is good."""

    @property
    def parent(self) -> str:
        return self.trial


class MetricRow(Part):
    batches: int
    at: float
    metrics: Mapping[str, float]


class MetricChunk(Part):
    """The metrics of one flush. Keyed by (trial, attempt, group, seq); writing it twice is once.

    An attempt that was restored at `base` batches replaces what earlier attempts had reported
    beyond `base`; `burst.core.metrics.merge` reads chunks that way.
    """

    trial: str
    attempt: int
    group: str
    """`training`, `validation`, `hardware`, or a name of the user's."""
    seq: int
    """Counts from 0 in each (trial, attempt, group)."""
    base: int = 0
    rows: tuple[MetricRow, ...]


class Event(Part):
    """Something that happened, for `burst show`, the page and whoever follows."""

    subject: str
    """The id of what it happened to."""
    experiment: str = ""
    name: str
    """`trial.running`, `checkpoint.saved`, `node.lost`, …"""
    text: str = ""
    at: float
    data: Mapping[str, Json] = Field(default_factory=dict)


class Model(Record):
    """A name in the registry; its versions are checkpoints, which it exempts from retention."""

    kind: ClassVar[str] = "model"

    created: float
    description: str = ""
    versions: tuple[str, ...] = ()
    """Checkpoint ids, the first is version 1."""


RECORDS: tuple[type[Record], ...] = (
    Experiment,
    Trial,
    Allocation,
    Node,
    Lease,
    Checkpoint,
    Model,
)
