"""Why checkpoints are removed, as their records say and people are told."""

from __future__ import annotations

from burst.core.errors import NotFound
from burst.core.model import Checkpoint
from burst.core.states import Reason

RETENTION = Reason(
    code="retention",
    text="retention keeps the best and the newest checkpoints of a trial, and pinned ones",
)
"""`checkpoints.keep`."""
LEFT_BEHIND = Reason(
    code="left", text="its trial is over or went on elsewhere, and it lay on one node's disk alone"
)


def requested(by: str) -> Reason:
    """A person asked for it."""
    return Reason(code="requested", text=f"{by} asked for it" if by else "a person asked for it")


def beyond_measure(url: str, keep: int) -> Reason:
    """It lay on a node's own disk alone, and was more than the experiment lets that hold."""
    return Reason(code="keep", text=f"{url} holds {keep} of a trial (checkpoints.storage.keep)")


def why_deleted(record: Checkpoint) -> str:
    """In words; empty where the record does not say."""
    return str(record.deleted_because) if record.deleted_because is not None else ""


def is_deleted(record: Checkpoint) -> NotFound:
    """The error for whoever wants to use a deleted checkpoint."""
    return NotFound(
        f"checkpoint {record.id} is deleted",
        why=why_deleted(record),
        mend=f"`burst checkpoint list {record.trial}` shows those there are",
    )
