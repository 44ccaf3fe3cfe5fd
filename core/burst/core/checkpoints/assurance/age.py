"""How old a trial's newest checkpoint is, and whether that is an alarm.

One decision for every surface: the pages, their JSON, `burst why` and reconcile's event. It looks
at the trial's record and a clock alone. A running trial is late when it has trained for twice the
time in which its next checkpoint was to be expected. What counts is training: the time before the
running attempt began to train, when nothing can be lost, does not.

Clocks may be set. A checkpoint that seems to come from the future has age zero, and is late as
soon as reconcile, which measures by a clock that never goes back, has written so down.
"""

from __future__ import annotations

from burst.core.checkpoints.assurance.causes import brief
from burst.core.model import Trial
from burst.core.states import TrialState
from burst.core.units import format_duration

LATE_FACTOR = 2.0
LEAST_S = 10.0
"""No age below this is an alarm: on a busy machine, a checkpoint a second may take ten."""


def checkpoint_age(trial: Trial, now: float) -> float | None:
    """Seconds since the newest durable checkpoint; where there is none yet, since the running
    attempt began to train; None where it does not train either."""
    since = trial.checkpoint_at
    if since is None and trial.state is TrialState.RUNNING:
        since = trial.training_since
    return None if since is None else max(0.0, now - since)


def allowed_age(trial: Trial) -> float | None:
    """Seconds of training without a checkpoint after which it is late; None where nothing is to be
    expected: it does not train, or nobody knows when the next one comes."""
    expected = trial.checkpoint_interval
    if trial.state is not TrialState.RUNNING or trial.training_since is None or expected is None:
        return None
    return max(LATE_FACTOR * expected, LEAST_S)


def late_at(trial: Trial) -> float | None:
    """The date from which it is late if no checkpoint comes; None where nothing is expected."""
    allowed = allowed_age(trial)
    if allowed is None or trial.training_since is None:
        return None
    return max(trial.training_since, trial.checkpoint_at or trial.training_since) + allowed


def is_late(trial: Trial, now: float) -> bool:
    """Whether the next checkpoint should have come long ago."""
    at = late_at(trial)
    return at is not None and (now >= at or trial.checkpoint_late == mark_of(trial))


def mark_of(trial: Trial) -> str:
    """What the trial was at when it was found late; another attempt or checkpoint is another."""
    return f"{trial.attempts}:{trial.checkpoint}"


def alarm(trial: Trial, now: float) -> str:
    """A sentence for people where a checkpoint is late, or where the last thing that a trial did
    before it was held was to fail at one; empty where all is well."""
    if trial.state in (TrialState.PAUSED, TrialState.WAITING) and trial.checkpoint_problem:
        why = brief(trial.checkpoint_problem)
        return f"what it trained last is not saved: {why}; it goes on from its newest checkpoint"
    expected = trial.checkpoint_interval
    if expected is None or not is_late(trial, now):
        return ""
    age = checkpoint_age(trial, now) or 0.0
    about = f"one is due about every {_rough(expected)}"
    if age < (allowed_age(trial) or 0.0):  # a clock was set, so no age can be told
        text = f"no checkpoint came for more than twice its time; {about}"
    elif trial.checkpoint_at is None:
        text = f"it has trained for {_rough(age)} without a checkpoint, and {about}"
    else:
        text = f"its newest checkpoint is {_rough(age)} old, and {about}"
    text += "; a loss now would repeat what it trained since"
    why = brief(trial.checkpoint_problem)
    return f"{text}. The newest attempt to save one failed: {why}" if why else text


def _rough(seconds: float) -> str:
    """A duration in its two largest units at the most: `8s`, `5m30s`, `2h5m`."""
    for above, unit in ((86400.0, 3600.0), (3600.0, 60.0), (1.0, 1.0)):
        if seconds >= above:
            return format_duration(round(seconds / unit) * unit)
    return format_duration(round(seconds, 1))
