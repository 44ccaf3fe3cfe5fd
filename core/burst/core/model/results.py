"""What comes of it: checkpoints, metrics, events, and the registry of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from burst.core.model.base import Json, Part, Record
from burst.core.states import Reason


class Copy(Part):
    """A tier that holds all of a checkpoint's files and its manifest."""

    url: str
    """The blobs; keys are the same in every tier."""
    at: float
    """When its manifest was written."""
    node: str = ""
    """The node on whose disk it lies; empty for a tier that outlives any node."""

    @property
    def durable(self) -> bool:
        return not self.node


class Checkpoint(Record):
    """A checkpoint: written to the store after its manifest, with the trial's token."""

    kind: ClassVar[str] = "checkpoint"

    trial: str
    experiment: str
    attempt: int
    batches: int
    created: float
    url: str
    """The blobs that hold it; `manifest` is a key in them. Of several tiers that do, the slowest:
    the one that is lost last."""
    copies: tuple[Copy, ...] = ()
    """The tiers that hold it, fastest first; empty means `url` alone."""
    manifest: str
    size: int
    """Bytes of all its files."""
    metrics: Mapping[str, float] = Field(default_factory=dict)
    """Validation metrics at the same batch; empty where there was no validation."""
    pinned: bool = False
    pin_reason: str = ""
    deleted: float | None = None
    deleted_because: Reason | None = None
    """Who or what removed it; None where that was not written down."""
    damaged: str = ""
    """What a restore or a verification found wrong; empty is good."""
    lent_to: tuple[str, ...] = ()
    """Other trials whose manifests may name files in this checkpoint's folder."""
    borrowed_from: tuple[str, ...] = ()
    """Other trials in whose folders files lie that this checkpoint's manifest names."""

    started: tuple[str, ...] = ()
    """Experiments that start from it; it is not removed while one of them is live."""

    @property
    def durable(self) -> bool:
        """Whether it outlives the node that wrote it."""
        return not self.copies or any(copy.durable for copy in self.copies)

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


class Family(Record):
    """Trials whose checkpoints may hold the same bytes, because their models have one structure
    or one origin: where a save looks for files that it need not write again."""

    kind: ClassVar[str] = "family"

    trials: tuple[str, ...] = ()
    """The last that joined, the newest last."""
