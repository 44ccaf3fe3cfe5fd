"""What a person, the searcher or the plan wants of a running trial, written where its agent looks.

A wish is kept on the trial (`wanted`: where the drain leads to) and asked of the allocation
(`drain`), in one commit. Asking again changes nothing; a stronger wish replaces a weaker one.
"""

from __future__ import annotations

from burst.core.model import Allocation, Drain, DrainCause, Trial
from burst.core.states import AllocationState, Reason, TrialState
from burst.core.store.port import Put, Store, Write
from burst.runner.transitions import move

_STRENGTH = {DrainCause.STOP: 1, DrainCause.CANCEL: 2, DrainCause.KILL: 3}


def current_allocation(store: Store, trial: Trial) -> Allocation | None:
    """The allocation of the trial's newest attempt, live or over; None before its first.

    Ids sort by the clock of whoever made them, so several are looked at and the attempt decides.
    """
    if not trial.attempts:
        return None
    found = store.children(Allocation, trial.id, newest_first=True, limit=4)
    return next((each for each in found if each.attempt == trial.attempts), None)


def ask_to_leave(
    allocation: Allocation, cause: DrainCause, reason: Reason, now: float, grace: float
) -> list[Write]:
    """Drain the allocation within `grace` seconds; nothing where it already leaves as fast."""
    if not allocation.live:
        return []
    asked = allocation.drain
    draining = allocation.state is AllocationState.DRAINING
    if asked is not None and draining and _strength(asked.cause) >= _strength(cause):
        return []
    deadline = now if cause is DrainCause.KILL else now + grace
    if asked is not None and asked.deadline is not None:
        deadline = min(deadline, asked.deadline)
    drain = Drain(cause=cause, at=now, deadline=deadline)
    if draining:
        return [Put(allocation.model_copy(update={"drain": drain, "reason": reason}))]
    changed, event = move(
        allocation,
        AllocationState.DRAINING,
        reason,
        now,
        experiment=allocation.experiment,
        drain=drain,
    )
    return [Put(changed), event]


def want_paused(
    trial: Trial, allocation: Allocation | None, reason: Reason, now: float, grace: float
) -> list[Write]:
    """Pause a running trial: it drains and is paused then."""
    if trial.state is not TrialState.RUNNING or trial.wanted is TrialState.PAUSED:
        return []
    writes: list[Write] = [Put(trial.model_copy(update={"wanted": TrialState.PAUSED}))]
    if allocation is not None:
        writes += ask_to_leave(allocation, DrainCause.PAUSE, reason, now, grace)
    return writes


def want_ended(
    trial: Trial,
    allocation: Allocation | None,
    cause: DrainCause,
    reason: Reason,
    now: float,
    grace: float,
) -> list[Write]:
    """Drain a running trial for good: stopped if the searcher asks, else cancelled."""
    to = TrialState.STOPPED if cause is DrainCause.STOP else TrialState.CANCELLED
    writes: list[Write] = []
    if trial.state is TrialState.RUNNING:
        changed, event = move(
            trial, TrialState.STOPPING, reason, now, experiment=trial.experiment, wanted=to
        )
        writes += [Put(changed), event]
    elif to is TrialState.CANCELLED and trial.wanted is TrialState.STOPPED:
        writes.append(Put(trial.model_copy(update={"wanted": to, "reason": reason})))
    if allocation is not None:
        writes += ask_to_leave(allocation, cause, reason, now, grace)
    return writes


def _strength(cause: DrainCause) -> int:
    return _STRENGTH.get(cause, 0)
