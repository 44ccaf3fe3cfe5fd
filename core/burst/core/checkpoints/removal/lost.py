"""Accepting that what lay in a place is gone: emptied by hand, or given up.

A place that outlives nodes and is empty, though records say that checkpoints lie there, looks like
a share that is not mounted; so nobody takes it for lost until a person says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from burst.core.blobs.port import Blobs
from burst.core.checkpoints.removal.collect import remains
from burst.core.checkpoints.removal.uses import IMPORTS
from burst.core.errors import Refused
from burst.core.model import Checkpoint, Event, Experiment, Trial
from burst.core.store import update
from burst.core.store.port import Append, Put, Store, Write


def said_to_lie_in(store: Store, url: str) -> list[Checkpoint]:
    """The checkpoints whose records say that a place which outlives nodes holds them. Reads the
    records of all trials."""
    return [
        record
        for trial in _trials(store)
        for record in store.children(Checkpoint, trial)
        if remains(record) and not record.damaged and url in _lasting(record)
    ]


def refuse_unless_empty(place: Blobs) -> None:
    """
    Raises:
        Refused: if something lies there.
        Unreachable: if it does not answer.
    """
    found = next(iter(place.list("")), None)
    if found is not None:
        raise Refused(
            f"{place.url} is not empty",
            why=f"{found.key} lies there",
            mend="`burst checkpoint verify` tells of each checkpoint whether it is lost",
        )


def accept_loss(store: Store, checkpoint: str, url: str, now: float) -> Checkpoint:
    """Take a place out of a checkpoint's record; returns it. If no other has it, it is marked
    damaged, and the one before it is used. Idempotent.

    `burst checkpoint verify` takes the mark away again where the checkpoint turns out intact.

    Args:
        now: seconds since the Unix epoch.
    """

    def change(record: Checkpoint) -> Sequence[Write]:
        if record.deleted is not None or url not in _lasting(record):
            return ()
        others = tuple(copy for copy in record.copies if copy.url != url or not copy.durable)
        if others:
            lasting = [copy.url for copy in others if copy.durable]
            dropped = {"copies": others, "url": (lasting or [others[-1].url])[-1]}
            text = f"checkpoint at batch {record.batches} does not lie in {url} any more"
        else:
            dropped = {"damaged": f"{url}, where alone it lay, is empty"}
            text = f"checkpoint at batch {record.batches} is lost: {url} is empty"
        event = Event(
            subject=record.id,
            experiment=record.experiment,
            name="checkpoint.lost",
            text=text,
            at=now,
            data={"trial": record.trial, "batches": record.batches},
        )
        return (Put(record.model_copy(update=dropped)), Append(event))

    return update(store, Checkpoint, checkpoint, change)


def _lasting(record: Checkpoint) -> list[str]:
    return [copy.url for copy in record.copies if copy.durable] or (
        [] if record.copies else [record.url]
    )


def _trials(store: Store) -> Iterator[str]:
    yield IMPORTS
    for experiment in store.children(Experiment, ""):
        for trial in store.children(Trial, experiment.id):
            yield trial.id
