"""One machine: what it is, where it stands, and what of it a client may see."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from burst.runner.agent.running.process import Process
from burst.runner.rehearsal.ec2.disk import Disk
from burst.runner.rehearsal.ec2.gates import Gate
from burst.runner.rehearsal.ec2.rules import Kind


class State(StrEnum):
    """EC2's own names."""

    PENDING = "pending"
    RUNNING = "running"
    SHUTTING_DOWN = "shutting-down"
    TERMINATED = "terminated"
    STOPPING = "stopping"
    STOPPED = "stopped"


USES_CAPACITY = (State.PENDING, State.RUNNING, State.SHUTTING_DOWN, State.STOPPING)


class Reason(StrEnum):
    """Why a machine ended, as EC2's StateReason has it."""

    NONE = ""
    USER = "Client.UserInitiatedShutdown"
    ITSELF = "Client.InstanceInitiatedShutdown"
    RECLAIMED = "Server.SpotInstanceTermination"
    FAILED = "Server.InternalError"

    @property
    def message(self) -> str:
        """As EC2 words it."""
        words = {
            Reason.NONE: "",
            Reason.USER: "User initiated shutdown",
            Reason.ITSELF: "Instance initiated shutdown",
            Reason.RECLAIMED: "Spot instance termination",
            Reason.FAILED: "Internal error",
        }
        return f"{self}: {words[self]}" if self else ""


class Body(Protocol):
    """The machine as the API shows it."""

    def tags(self) -> Mapping[str, str]:
        """Safe without the cloud's lock."""
        ...

    def show(self, state: State, reason: Reason, at: float) -> None:
        """Take on a state. Called under the cloud's lock."""
        ...


@dataclass(frozen=True)
class Metadata:
    """What a machine may learn of itself."""

    enabled: bool = True
    token_required: bool = False
    tags: bool = False


@dataclass
class Machine:
    """Changed by its cloud alone, under the cloud's lock."""

    id: str
    kind: Kind
    price: float
    """US dollars an hour."""
    subnet: str
    group: str
    """Its placement group; empty if it is in none."""
    image: str
    role: str
    user_data: bytes
    stops: bool
    """Whether its own `shutdown` stops it; otherwise it ends it."""
    metadata: Metadata
    body: Body
    disk: Disk
    launched: float
    state: State = State.PENDING
    reason: Reason = Reason.NONE
    booted: float | None = None
    noticed: float | None = None
    """When it was told that it will be taken away."""
    reclaim_at: float | None = None
    rebalance: float | None = None
    """When it was told that this is likely."""
    ended: float | None = None
    """From here on it costs nothing."""
    gone: float | None = None
    """Nothing of it runs any more."""
    partitioned: bool = False
    process: Process | None = None
    gates: tuple[Gate, ...] = ()
    """Before the servers that its programs know."""
    timers: dict[str, threading.Timer] = field(default_factory=dict)
    tokens: dict[str, float] = field(default_factory=dict)
    """Of its metadata service, with the dates until which they hold."""

    @property
    def alive(self) -> bool:
        return self.state in (State.PENDING, State.RUNNING)

    def seconds(self, now: float) -> float:
        """For which it costs money."""
        return (now if self.ended is None else self.ended) - self.launched
