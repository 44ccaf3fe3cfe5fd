"""Writing down that a checkpoint was restored in a process to throw away, and how it came out."""

from __future__ import annotations

from collections.abc import Sequence

from burst.core.clock import Clock, SystemClock
from burst.core.model import Checkpoint, Event, Trial
from burst.core.store import update
from burst.core.store.port import Append, Put, Store, Write

_SYSTEM_CLOCK = SystemClock()


def note_rehearsal(
    store: Store, checkpoint: Checkpoint, problem: str = "", *, clock: Clock = _SYSTEM_CLOCK
) -> None:
    """Note in the checkpoint's trial what a rehearsal of its restore found. Idempotent.

    Needs no token: what a checkpoint holds does not depend on who owns the trial now.

    Args:
        problem: what did not come out as it was saved; empty if all did.

    Raises:
        NotFound: the trial is not there.
    """

    def change(trial: Trial) -> Sequence[Write]:
        found = {"unprovable": problem} if problem else {"proved": checkpoint.id, "unprovable": ""}
        changed = trial.model_copy(update=found)
        if changed == trial or (problem and trial.proved == checkpoint.id):
            return ()
        at = f"checkpoint at batch {checkpoint.batches}"
        event = Event(
            subject=checkpoint.id,
            experiment=checkpoint.experiment,
            name="checkpoint.unprovable" if problem else "checkpoint.proved",
            text=f"{at} does not restore: {problem}" if problem else f"{at} proved to restore",
            at=clock.now(),
            data={"trial": trial.id, "batches": checkpoint.batches},
        )
        return (Put(changed), Append(event))

    update(store, Trial, checkpoint.trial, change, clock=clock)
