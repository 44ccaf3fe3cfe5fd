"""Making a written checkpoint count: its record, in one commit under the trial's token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burst.core.errors import Fenced
from burst.core.model import Checkpoint, Event, Trial
from burst.core.store import update
from burst.core.store.port import Append, Fence, Put, Store, Write
from burst.harness.checkpoints.agreement import LenderGone, OutcomeUnknown


@dataclass(frozen=True)
class Identity:
    """Whose checkpoints these are."""

    experiment: str
    trial: str
    attempt: int
    token: int

    @property
    def fence(self) -> Fence:
        return Fence(self.trial, self.token)

    def event(self, name: str, subject: str, text: str, at: float, batches: int) -> Event:
        return Event(
            subject=subject,
            experiment=self.experiment,
            name=f"checkpoint.{name}",
            text=text,
            at=at,
            data={"trial": self.trial, "batches": batches},
        )


def publish(store: Store, identity: Identity, checkpoint: Checkpoint, lender: str) -> None:
    """Commit a checkpoint whose manifest is written. Idempotent.

    Args:
        lender: the checkpoint in whose manifest files were found that this one names, or empty.

    Raises:
        LenderGone: if the lender may lose its files; nothing was committed.
        Fenced: if a newer allocation owns the trial; nothing was committed.
        OutcomeUnknown: if the store did not answer: it may be committed, now or later.
    """

    def change(trial: Trial) -> Sequence[Write]:
        if store.find(Checkpoint, checkpoint.id) is not None:
            return ()
        latest = {"checkpoint": checkpoint.id, "checkpoint_at": checkpoint.created}
        text = f"checkpoint at batch {checkpoint.batches} saved"
        event = identity.event(
            "saved", checkpoint.id, text, checkpoint.created, checkpoint.batches
        )
        writes: list[Write] = [
            identity.fence,
            Put(checkpoint),
            Put(trial.model_copy(update=latest)),
            Append(event),
        ]
        if lender:
            found = store.find(Checkpoint, lender)
            if found is None or found.deleted is not None or found.damaged:
                raise LenderGone(f"checkpoint {lender} is deleted or damaged")
            writes.append(Put(found))  # unchanged: a deletion in between makes this a conflict
        return writes

    try:
        update(store, Trial, identity.trial, change)
    except (Fenced, LenderGone):
        raise
    except Exception as error:
        if _is_there(store, checkpoint.id):
            return
        raise OutcomeUnknown(
            f"the store did not take the record of checkpoint {checkpoint.id}", why=str(error)
        ) from error


def mark_damaged(
    store: Store, identity: Identity, checkpoint: Checkpoint, text: str, now: float
) -> None:
    """Let no restore try this checkpoint again.

    Raises:
        Fenced: if a newer allocation owns the trial.
    """

    def change(record: Checkpoint) -> Sequence[Write]:
        if record.deleted is not None or record.damaged:
            return ()
        event = identity.event("damaged", record.id, text, now, record.batches)
        damaged = record.model_copy(update={"damaged": text})
        return (identity.fence, Put(damaged), Append(event))

    update(store, Checkpoint, checkpoint.id, change)


def _is_there(store: Store, checkpoint: str) -> bool:
    try:
        return store.find(Checkpoint, checkpoint) is not None
    except Exception:
        return False
