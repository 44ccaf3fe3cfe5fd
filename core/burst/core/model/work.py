"""What is to be trained: experiments and their trials."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from burst.core.model.base import Json, Part, Record
from burst.core.states import ExperimentState, Reason, Stateful, TrialState, is_terminal


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


class Key(Record):
    """A name under which something is submitted once, however often it is tried: by a job that is
    run again, or by two at the same moment. Written with the experiment, in one commit."""

    kind: ClassVar[str] = "key"

    experiment: str = ""
    """What counts under it."""

    @staticmethod
    def id_of(name: str) -> str:
        """The id of the record for the name that people or jobs use, whatever is in it."""
        return f"key-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


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


class Judged(Part):
    """A validation as a searcher looks at it."""

    batches: int
    length: float
    """How far the trial was, in what the search counts in."""
    metric: float


class Failure(Part):
    """The first error of an attempt, as the user should see it."""

    kind: str = ""
    """The exception's class, or the signal's or exit code's name."""
    message: str = ""
    traceback: str = ""
    """The user's own traceback, or the last lines that the process wrote."""
    rank: int | None = None
    exit_code: int | None = None
    node: str = ""
    """The node that it happened on, of a gang over several."""
    at: float | None = None
    """When it happened, by that node's clock."""

    @property
    def where(self) -> str:
        """` (rank 3 on node-…)`, to follow what happened; empty unless several nodes took part."""
        if not self.node:
            return ""
        rank = "" if self.rank is None else f"rank {self.rank} "
        return f" ({rank}on {self.node})"


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
    """Validations reported, counted by the harness, so that who follows misses none."""
    untold: tuple[Judged, ...] = ()
    """Validations on their way to the searcher, oldest first, where it wants them. Reconcile moves
    them to the experiment's book in one commit, so that each is told once."""
    judged: int = 0
    """How many validations were put on that way so far."""
    judged_to: int = -1
    """Batches of the newest of them. What an attempt that trains again reports up to there has
    been told."""
    checkpoint: str = ""
    """The newest durable checkpoint's id."""
    checkpoint_at: float | None = None
    checkpoint_interval: float | None = None
    """Seconds in which the next one is to be expected, as the harness last knew; None if periods
    in batches decide and none has passed yet."""
    checkpoint_problem: str = ""
    """Why the newest attempt to save failed; empty once one succeeds."""
    checkpoint_late: str = ""
    """The attempt and checkpoint after which reconcile found the next one late
    (`burst.core.checkpoints.assurance.age.mark_of`); it means nothing once either is another."""
    training_since: float | None = None
    """When the running attempt began to train; None before, and where the harness cannot tell."""
    proved: str = ""
    """The checkpoint of this trial that was restored in a process to throw away, and came out as
    it was saved; empty while none was."""
    unprovable: str = ""
    """What was wrong with the newest checkpoint that was tried so; empty once one is proved."""
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
