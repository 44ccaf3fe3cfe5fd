"""The records: what burst knows, one frozen model a kind.

A record is a value. To change one, make a copy and commit it to a store under the version that was
read (`burst.core.store.port`). Times are seconds since the Unix epoch. Not-a-number and infinities
are written as the strings "NaN", "Infinity" and "-Infinity", here and everywhere else.
"""

from __future__ import annotations

from burst.core.model.base import Json, Part, Record
from burst.core.model.placement import (
    Allocation,
    Drain,
    DrainCause,
    Exit,
    ExitKind,
    Lease,
    Node,
    Refusal,
    RefusalKind,
    Share,
    Slot,
    Supply,
)
from burst.core.model.results import (
    Checkpoint,
    Copy,
    Event,
    Family,
    MetricChunk,
    MetricRow,
    Model,
)
from burst.core.model.work import (
    Code,
    Experiment,
    Failure,
    Judged,
    Key,
    Lengths,
    MetricPoint,
    Trial,
)

__all__ = [
    "RECORDS",
    "Allocation",
    "Checkpoint",
    "Code",
    "Copy",
    "Drain",
    "DrainCause",
    "Event",
    "Exit",
    "ExitKind",
    "Experiment",
    "Failure",
    "Family",
    "Json",
    "Judged",
    "Key",
    "Lease",
    "Lengths",
    "MetricChunk",
    "MetricPoint",
    "MetricRow",
    "Model",
    "Node",
    "Part",
    "Record",
    "Refusal",
    "RefusalKind",
    "Share",
    "Slot",
    "Supply",
    "Trial",
]

RECORDS: tuple[type[Record], ...] = (
    Experiment,
    Trial,
    Allocation,
    Node,
    Lease,
    Supply,
    Key,
    Checkpoint,
    Model,
    Family,
)
