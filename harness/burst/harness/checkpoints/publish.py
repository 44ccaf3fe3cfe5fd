"""Making a written checkpoint count: its record, in one commit under the trial's token."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from burst.core.checkpoints.assurance.causes import cause
from burst.core.checkpoints.removal import damage
from burst.core.checkpoints.removal.delete import restorable
from burst.core.checkpoints.removal.lend import held_at
from burst.core.errors import Conflict, Fenced
from burst.core.model import Checkpoint, Copy, Event, Trial
from burst.core.store import update
from burst.core.store.port import MAX_WRITES, Append, Fence, Put, Store, Write
from burst.harness.checkpoints.agreement import LenderGone, OutcomeUnknown

MOST_BORROWERS = 2000
"""Other trials that may name files in one checkpoint's folder, so that its record stays small."""


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


def publish(
    store: Store,
    identity: Identity,
    checkpoint: Checkpoint,
    lenders: Collection[str] = (),
    owners: Collection[str] = (),
) -> None:
    """Commit a checkpoint whose manifest is written. Idempotent.

    It becomes the trial's newest if it outlives its node; else `note_copies` makes it so later.

    Args:
        lenders: the checkpoints whose word it is that files are there which this one names.
        owners: the checkpoints in whose folders those files lie that other trials' lenders named
            (`burst.core.checkpoints.removal.lend.terms` gives both).

    Raises:
        LenderGone: if a lender may lose its files; nothing was committed.
        Fenced: if a newer allocation owns the trial; nothing was committed.
        OutcomeUnknown: if the store did not answer: it may be committed, now or later.
    """

    def change(trial: Trial) -> Sequence[Write]:
        if store.find(Checkpoint, checkpoint.id) is not None:
            return ()
        loans = list(_loans(store, checkpoint, lenders, owners))
        trials = {loan.trial for loan in loans if loan.id in owners} - {checkpoint.trial}
        borrowed = tuple(sorted({*checkpoint.borrowed_from, *trials}))
        where = "" if checkpoint.durable else " on the node's own disk"
        text = f"checkpoint at batch {checkpoint.batches} saved{where}"
        event = identity.event(
            "saved", checkpoint.id, text, checkpoint.created, checkpoint.batches
        )
        return (
            identity.fence,
            Put(checkpoint.model_copy(update={"borrowed_from": borrowed})),
            Put(_succeeded(trial, checkpoint)),
            Append(event),
            *map(Put, loans),
        )

    if len(lenders) + len(owners) > MAX_WRITES - 4:
        raise LenderGone(f"checkpoint {checkpoint.id} has files of too many others")
    try:
        update(store, Trial, identity.trial, change)
    except (Fenced, LenderGone):
        raise
    except Conflict as error:
        raise LenderGone("others write the same records all the time", why=error.what) from error
    except Exception as error:
        if _is_there(store, checkpoint.id):
            return
        raise OutcomeUnknown(
            f"the store did not take the record of checkpoint {checkpoint.id}", why=str(error)
        ) from error


def note_copies(
    store: Store, identity: Identity, checkpoint: str, copies: Collection[Copy]
) -> Checkpoint:
    """Write down that tiers hold a checkpoint; returns its record. Idempotent.

    Once one of them outlives the node, it is the trial's newest, unless a newer one is already.

    Raises:
        NotFound: no such checkpoint.
        Fenced: if a newer allocation owns the trial.
    """

    def change(record: Checkpoint) -> Sequence[Write]:
        noted = _with_copies(record, copies)
        if noted == record or record.deleted is not None:
            return ()
        writes: list[Write] = [identity.fence, Put(noted)]
        if record.durable or not noted.durable or record.trial != identity.trial:
            return writes
        at = max(copy.at for copy in noted.copies if copy.durable)
        text = f"checkpoint at batch {record.batches} outlives its node"
        writes.append(Append(identity.event("durable", record.id, text, at, record.batches)))
        trial = store.get(Trial, identity.trial)
        if _is_newer(store, noted, trial):
            writes.append(Put(_succeeded(trial, noted)))
        return writes

    return update(store, Checkpoint, checkpoint, change)


def note_failure(store: Store, identity: Identity, text: str, batches: int, now: float) -> None:
    """Let it be known that a state was not saved. It is an event where its cause is news: a full
    disk fails every checkpoint of a night, and is told once.

    Raises:
        Fenced: if a newer allocation owns the trial.
    """
    event = identity.event("failed", identity.trial, text, now, batches)

    def change(trial: Trial) -> Sequence[Write]:
        known = trial.checkpoint_problem
        told = () if known and cause(known) == cause(text) else (Append(event),)
        problem = {"checkpoint_problem": text}
        return (identity.fence, Put(trial.model_copy(update=problem)), *told)

    update(store, Trial, identity.trial, change)


def mark_damaged(
    store: Store, identity: Identity, checkpoint: Checkpoint, text: str, now: float
) -> None:
    """Let no restore try this checkpoint again, nor any save use its files.

    Raises:
        Fenced: if a newer allocation owns the trial.
    """
    damage.mark_damaged(store, checkpoint.id, text, now, fence=identity.fence)


def _loans(
    store: Store, checkpoint: Checkpoint, lenders: Collection[str], owners: Collection[str]
) -> Iterator[Checkpoint]:
    """The records to write beside a checkpoint's. A deletion of a lender in between makes that a
    conflict; and who collects in an owner's folder sees from its version that someone came.

    A lender must be held by the tier that the checkpoint was written to, or its files may have
    been taken out of there. One of the trial's own earlier attempts may have been written
    elsewhere, and its files brought here without its record saying so."""
    url, node = checkpoint.url, ""
    if checkpoint.copies:
        url, node = checkpoint.copies[0].url, checkpoint.copies[0].node
    for id in sorted({*lenders, *owners}):
        record = store.find(Checkpoint, id)
        if record is None:
            raise LenderGone(f"there is no checkpoint {id}")
        if id in lenders and (record.deleted is not None or record.damaged):
            raise LenderGone(f"checkpoint {id} is deleted or damaged")
        other = record.trial != checkpoint.trial
        was_held = other or record.attempt == checkpoint.attempt
        if id in lenders and was_held and not held_at(record, url, node):
            raise LenderGone(f"checkpoint {id} is no longer held by {url}")
        if id in owners and other and checkpoint.trial not in record.lent_to:
            if len(record.lent_to) >= MOST_BORROWERS:
                raise LenderGone(f"checkpoint {id} has lent files to {MOST_BORROWERS} trials")
            lent_to = (*record.lent_to, checkpoint.trial)
            record = record.model_copy(update={"lent_to": lent_to})
        yield record


def _succeeded(trial: Trial, checkpoint: Checkpoint) -> Trial:
    now = {"checkpoint": checkpoint.id, "checkpoint_at": checkpoint.created}
    latest = now if checkpoint.durable else {}
    return trial.model_copy(update={**latest, "checkpoint_problem": ""})


def _is_newer(store: Store, checkpoint: Checkpoint, trial: Trial) -> bool:
    newest = store.find(Checkpoint, trial.checkpoint) if trial.checkpoint else None
    return restorable([checkpoint, *([newest] if newest else [])])[:1] == [checkpoint]


def _with_copies(record: Checkpoint, copies: Collection[Copy]) -> Checkpoint:
    """A record that names `copies` too: those on a node's own disk first, and within these the
    order in which they came, which goes from fast to slow."""
    before = record.copies or (Copy(url=record.url, at=record.created),)
    held = {(copy.url, copy.node) for copy in before}
    new = [copy for copy in copies if (copy.url, copy.node) not in held]
    if not new:
        return record
    merged = tuple(sorted((*before, *new), key=lambda copy: copy.durable))
    lasting = [copy.url for copy in merged if copy.durable]
    url = lasting[-1] if lasting else record.url
    return record.model_copy(update={"copies": merged, "url": url})


def _is_there(store: Store, checkpoint: str) -> bool:
    try:
        return store.find(Checkpoint, checkpoint) is not None
    except Exception:
        return False
