"""What a plan is made from and what it says: values only, so that planning is a function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from burst.core.model import Share
from burst.core.states import Reason


@dataclass(frozen=True)
class Want:
    """A trial that waits."""

    trial: str
    experiment: str
    slots: int
    pools: tuple[str, ...]
    """Best first."""
    priority: int
    """1 goes first."""
    queued: float
    blocked: frozenset[str] = frozenset()
    """Nodes that it must not run on."""
    single_node: bool = False
    hold: Reason | None = None
    """Why it may not start whatever is free: paused by a person, backing off."""
    hold_until: float | None = None
    closed: str = ""
    """Why some of the trial's pools are not among `pools`, if they are not."""
    burst_after: float = 120.0
    """Seconds since `queued`, for each pool before, after which a pool is tried too. A trial that
    was lost where it had burst to is queued since long ago, and goes on there at once."""
    leaving: bool = False
    """Whether it still runs, and leaves because its node does: what it will need is asked for or
    kept free already, and nothing starts."""

    @property
    def order(self) -> tuple[int, float, str]:
        return (self.priority, self.queued, self.trial)


@dataclass(frozen=True)
class Run:
    """A live allocation."""

    allocation: str
    trial: str
    experiment: str
    pool: str
    priority: int
    shares: tuple[Share, ...]
    since: float
    leaving: bool = False
    """Whether it was asked to leave already."""
    yielding: bool = False
    """Whether it leaves to make room for another (a preemption)."""


@dataclass(frozen=True)
class PlanNode:
    """A node that may take work now."""

    id: str
    pool: str
    slots: tuple[int, ...]
    """Indices of all its slots."""
    idle_since: float | None = None
    cell: str = ""
    """A gang of several nodes has them all in one cell."""


@dataclass(frozen=True)
class PlanPool:
    name: str
    slots_per_node: int
    """0 where the pool could not say yet; then nothing is asked of it."""
    max_nodes: int
    launches: bool
    """Whether burst starts its nodes; else they join by themselves."""
    idle: float | None = None
    """Seconds without work after which a node leaves; None is never."""
    nodes: int = 0
    """Nodes that are not gone, of whatever state."""
    coming: int = 0
    """Nodes asked for and not ready yet."""
    coming_whole: tuple[int, ...] = ()
    """Of those `coming`, how many are of each request that is wanted whole, for a gang each."""
    coming_cells: tuple[str, ...] = ()
    """The cell of each of these requests, in the same order; empty where it is not known yet."""
    trouble: str = ""
    """Why its last node could not be started."""
    retry_at: float | None = None
    """Until then no node is asked for."""
    stopped: str = ""
    """Why no more nodes are asked for until a person says so; empty where they are."""
    misfit: bool = False
    """Whether it can have no machine until a person changes how it is set up; `trouble` says why,
    and from `retry_at` on it is asked again whether somebody did."""
    min_nodes: int = 0
    quiet: float = 0.0
    """Seconds without a new arrival to wait for before nodes are asked for, so that those who come
    together are served by one request; at most ten times as long."""


@dataclass(frozen=True)
class Snapshot:
    """All that is live, at one moment."""

    now: float
    wants: tuple[Want, ...] = ()
    runs: tuple[Run, ...] = ()
    nodes: tuple[PlanNode, ...] = ()
    pools: tuple[PlanPool, ...] = ()
    max_slots: Mapping[str, int] = field(default_factory=dict)
    """By experiment, where it has one."""
    preemption: bool = False


@dataclass(frozen=True)
class Start:
    """Begin an attempt on these slots, all of them free."""

    trial: str
    pool: str
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class Yield:
    """Ask a running trial to checkpoint and leave, so that a better one can start."""

    allocation: str
    trial: str
    to: str
    """The trial that it makes room for."""


@dataclass(frozen=True)
class Launch:
    """One request for nodes."""

    pool: str
    count: int
    whole: bool = False
    """All or none, and in one cell: for a gang of several nodes."""
    beside: str = ""
    """A node in whose cell they have to be, where they complete what is left of a gang."""


@dataclass(frozen=True)
class Wait:
    """Why a trial does not start now, and when to look again if a date is known."""

    trial: str
    reason: Reason
    until: float | None = None


@dataclass(frozen=True)
class Plan:
    starts: tuple[Start, ...] = ()
    yields: tuple[Yield, ...] = ()
    launches: tuple[Launch, ...] = ()
    drains: tuple[str, ...] = ()
    """Idle nodes that leave."""
    keeps: tuple[str, ...] = ()
    """Idle nodes that somebody waits for: they stay although they have no work."""
    waits: tuple[Wait, ...] = ()
    next: float | None = None
    """When a plan would differ without anything having changed."""
