"""Checkpoints that do not come: found, written into the trial, and told once.

A date in a record was written by another machine, whose clock may have been set since. So a pass
also remembers, by a clock that never goes back, since when it has seen a trial's checkpoint
unchanged; where it saw one come, only that counts. A new runner knows nothing and goes by dates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from burst.core.checkpoints.assurance.age import alarm, allowed_age, late_at, mark_of
from burst.core.model import Event, Trial
from burst.core.store import update
from burst.core.store.port import Append, Put, Write
from burst.runner.reconcile.context import Context, Seen, View


@dataclass(frozen=True)
class Verdict:
    late: bool
    next_in: float | None = None
    """Seconds until it would be late; None where it is, or where nothing is expected."""


def judge(trial: Trial, seen: Seen, now: float, monotonic: float) -> Verdict:
    """Whether the trial's next checkpoint is late. Pure.

    Args:
        seen: since when its checkpoint was seen unchanged.
    """
    allowed, at = allowed_age(trial), late_at(trial)
    if allowed is None or at is None:
        return Verdict(late=False)
    left = seen.since + allowed - monotonic
    if not seen.from_the_start:
        left = min(left, at - now)
    return Verdict(late=True) if left <= 0 else Verdict(late=False, next_in=left)


def reconcile_lateness(ctx: Context, view: View) -> float | None:
    """Write down which running trials have no checkpoint for twice their interval, with one event
    `checkpoint.late` each time. Returns seconds until the next one would be late."""
    now, monotonic = ctx.clock.now(), ctx.clock.monotonic()
    next_in: float | None = None
    seen: dict[str, Seen] = {}
    for trial in view.trials:
        if allowed_age(trial) is None:
            continue
        seen[trial.id] = _see(ctx.seen.get(trial.id), trial, monotonic)
        found = judge(trial, seen[trial.id], now, monotonic)
        if found.late and trial.checkpoint_late != mark_of(trial):
            ctx.attempt(partial(_tell, ctx, trial))
        if found.next_in is not None:
            next_in = found.next_in if next_in is None else min(next_in, found.next_in)
    ctx.seen = seen
    return next_in


def _see(before: Seen | None, trial: Trial, monotonic: float) -> Seen:
    mark = mark_of(trial)
    if before is None:
        return Seen(mark, monotonic, from_the_start=False)
    return before if before.mark == mark else Seen(mark, monotonic, from_the_start=True)


def _tell(ctx: Context, seen: Trial) -> bool:
    told = False

    def change(trial: Trial) -> Sequence[Write]:
        nonlocal told
        mark = mark_of(trial)
        told = mark == mark_of(seen) and trial.checkpoint_late != mark
        if not told or allowed_age(trial) is None:
            return ()
        late = trial.model_copy(update={"checkpoint_late": mark})
        now = ctx.clock.now()
        event = Event(
            subject=trial.id,
            experiment=trial.experiment,
            name="checkpoint.late",
            text=alarm(late, now),
            at=now,
            data={"trial": trial.id, "checkpoint": trial.checkpoint},
        )
        return (Put(late), Append(event))

    update(ctx.store, Trial, seen.id, change, clock=ctx.clock)
    return told
