"""What becomes of a trial when its attempt is over: a pure function over the classes of exits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from burst.core.errors import Unauthorized
from burst.core.launch import APART
from burst.core.model import Allocation, Exit, ExitKind, Failure, Trial
from burst.core.states import AllocationState, Reason, TrialState
from burst.core.units import counted
from burst.runner.search.port import INVALID_HP, MISCONFIGURED

BACKING_OFF = "backing-off"
"""The code of a wait that ends at `Trial.wait_until` and not before."""
SHORT_ATTEMPT_S = 60.0
"""An attempt that ran longer than this is not part of a row of failures."""
FAILURES_TO_BLOCK = 3
"""Infrastructure failures in a row on a node, after which the trial avoids it."""
_FIRST_CRASH_WAIT_S = 0.5
_LONGEST_CRASH_WAIT_S = 60.0
_FIRST_INFRASTRUCTURE_WAIT_S = 1.0
_LONGEST_INFRASTRUCTURE_WAIT_S = 300.0
_LONGEST_CREDENTIALS_WAIT_S = 60.0
"""A person who logs in waits for it."""
_OF_THE_FILE = "ConfigError"
"""The error of a trial whose experiment's file is wrong, so that any other would fail like it."""


@dataclass(frozen=True)
class After:
    """The state that a trial goes to after an attempt, and what is noted with it."""

    state: TrialState
    reason: Reason
    how: str = ""
    """The searcher's word for the end, if it is one and not the state's own."""
    fields: dict[str, Any] = field(default_factory=dict)


def after_exit(
    trial: Trial,
    allocation: Allocation,
    max_restarts: int,
    now: float,
    *,
    row: Sequence[Allocation] = (),
    stop_retrying: str = "",
) -> After:
    """The trial's next state. Only a crash counts against `max_restarts`.

    Args:
        row: the attempts up to this one that the world ended one after the other, newest first;
            only read for infrastructure failures.
        stop_retrying: why a crash must not be tried again, if a log policy says so.
    """
    if allocation.state is AllocationState.LOST:
        return _unless_wanted(trial, _after_loss(allocation, row, now))
    exit = allocation.exit or Exit(kind=ExitKind.INFRASTRUCTURE)
    match exit.kind:
        case ExitKind.COMPLETED:
            return After(TrialState.COMPLETED, Reason(code="completed", text="trained to its end"))
        case ExitKind.STOPPED:
            return After(TrialState.STOPPED, _why_stopped(exit))
        case ExitKind.INVALID_HP:
            return _unless_ending(trial, _after_invalid(exit))
        case ExitKind.DRAINED:
            return _unless_wanted(trial, _after_drain(allocation))
        case ExitKind.CRASHED:
            return _after_crash(trial, exit, max_restarts, now, stop_retrying)
        case ExitKind.INFRASTRUCTURE:
            return _unless_wanted(trial, _after_infrastructure(trial, exit, row, now))


def failures_in_a_row(attempts: Sequence[Allocation]) -> tuple[Allocation, ...]:
    """Of a trial's attempts, newest first: those at the front that the world ended early."""
    row = []
    for attempt in attempts:
        by_world = attempt.state is AllocationState.LOST or (
            attempt.exit is not None and attempt.exit.kind is ExitKind.INFRASTRUCTURE
        )
        ran = (attempt.ended or 0.0) - attempt.started if attempt.started is not None else 0.0
        if not by_world or ran > SHORT_ATTEMPT_S:
            break
        row.append(attempt)
    return tuple(row)


def _unless_wanted(trial: Trial, after: After) -> After:
    """Where a wish was being carried out, its goal; the rest of what was found stays noted."""
    if trial.wanted is None and trial.state is TrialState.STOPPING:
        return After(TrialState.STOPPED, trial.reason)
    if trial.wanted is None:
        return after
    if trial.wanted is TrialState.PAUSED:
        kept = {k: v for k, v in after.fields.items() if k not in ("wait", "wait_until")}
        return After(
            TrialState.PAUSED, Reason(code="paused", text="paused by a person"), fields=kept
        )
    return After(trial.wanted, trial.reason)


def _unless_ending(trial: Trial, after: After) -> After:
    return _unless_wanted(trial, after) if trial.state is TrialState.STOPPING else after


def _why_stopped(exit: Exit) -> Reason:
    return Reason(code=exit.code or "stopped", text=exit.text or "it stopped itself early")


def _after_loss(allocation: Allocation, row: Sequence[Allocation], now: float) -> After:
    reason = Reason(code="lost", text=str(allocation.reason))
    # One loss is the world's ordinary way; only a row of them slows down.
    return _again(reason, _doubling(_FIRST_INFRASTRUCTURE_WAIT_S, len(row) - 1), now)


def _after_drain(allocation: Allocation) -> After:
    cause = allocation.drain.cause.value if allocation.drain else "drained"
    return After(TrialState.WAITING, Reason(code=cause, text=str(allocation.reason)))


def _after_invalid(exit: Exit) -> After:
    text = _said(exit.failure) or "the trial refused its hyperparameters"
    fields = {"failure": exit.failure}
    return After(TrialState.FAILED, Reason(code=INVALID_HP, text=text), INVALID_HP, fields)


def _after_crash(
    trial: Trial, exit: Exit, max_restarts: int, now: float, stop_retrying: str
) -> After:
    restarts = trial.restarts + 1
    tally: dict[str, Any] = {"restarts": restarts, "failure": exit.failure}
    said = _said(exit.failure) or "its process failed"
    if trial.state is TrialState.STOPPING:
        after = _unless_wanted(trial, After(TrialState.STOPPED, trial.reason))
        return After(after.state, after.reason, fields=tally)
    if stop_retrying:
        text = f"{said} ({stop_retrying})"
        kind = exit.failure.kind.rpartition(".")[2] if exit.failure is not None else ""
        how = MISCONFIGURED if kind == _OF_THE_FILE else ""
        return After(TrialState.FAILED, Reason(code="crashed", text=text), how, tally)
    if restarts > max_restarts:
        times = counted(restarts, "time")
        text = f"{said}; it crashed {times}, and max_restarts is {max_restarts}"
        return After(TrialState.FAILED, Reason(code="crashed", text=text), fields=tally)
    delay = min(_FIRST_CRASH_WAIT_S * 2.0 ** min(restarts - 1, 30), _LONGEST_CRASH_WAIT_S)
    text = f"{said}; restart {restarts} of {max_restarts}"
    again = _again(Reason(code="crashed", text=text), delay, now)
    fields = {**again.fields, **tally}
    return _keeping(_unless_wanted(trial, After(again.state, again.reason, fields=fields)), tally)


def _after_infrastructure(
    trial: Trial, exit: Exit, row: Sequence[Allocation], now: float
) -> After:
    if without_credentials(exit):
        return _after_no_credentials(exit, len(row), now)
    said = _said(exit.failure) or "the machine failed"
    reason = Reason(code="infrastructure", text=said)
    again = _again(reason, _doubling(_FIRST_INFRASTRUCTURE_WAIT_S, max(1, len(row))), now)
    blocked = _to_block(row) - set(trial.blocked_nodes)
    if not blocked:
        return again
    nodes = (*trial.blocked_nodes, *sorted(blocked))
    return After(again.state, again.reason, fields={**again.fields, "blocked_nodes": nodes})


def without_credentials(exit: Exit | None) -> bool:
    """Whether an attempt ended because nobody had given it credentials that hold."""
    return (
        exit is not None
        and exit.kind is ExitKind.INFRASTRUCTURE
        and exit.failure is not None
        and exit.failure.kind == Unauthorized.__name__
    )


def _after_no_credentials(exit: Exit, tries: int, now: float) -> After:
    """No node is blocked for it: another one would have no others, and this one may get them."""
    what = exit.failure.message.strip().partition("\n")[0] if exit.failure is not None else ""
    text = (
        f"{what}: type `burst run` or `burst resume` in a shell that has them, or log in with "
        "`aws sso login`"
    )
    wait = min(_doubling(_FIRST_INFRASTRUCTURE_WAIT_S, max(1, tries)), _LONGEST_CREDENTIALS_WAIT_S)
    return _again(Reason(code="no-credentials", text=text), wait, now)


def _to_block(row: Sequence[Allocation]) -> set[str]:
    """Nodes that each of the last failures had in common."""
    newest = [
        set() if without_credentials(each.exit) else _blamed(each)
        for each in row[:FAILURES_TO_BLOCK]
    ]
    return set.intersection(*newest) if len(newest) == FAILURES_TO_BLOCK else set()


def _blamed(attempt: Allocation) -> set[str]:
    """The nodes whose fault an attempt's end may be: of a gang's, the one that has failed."""
    ends = attempt.ends.values() if attempt.state is AllocationState.LOST else (attempt.exit,)
    failures = [end.failure for end in ends if end is not None and end.failure is not None]
    own = {each.node for each in failures if each.node and each.kind != APART}
    return own or {share.node for share in attempt.shares}


def _again(reason: Reason, delay: float, now: float) -> After:
    if delay <= 0:
        return After(TrialState.WAITING, reason)
    text = f"{reason.text}; it starts again after a pause of {delay:g} s"
    wait = Reason(code=BACKING_OFF, text=text)
    return After(TrialState.WAITING, reason, fields={"wait": wait, "wait_until": now + delay})


def _doubling(first: float, count: int) -> float:
    if count <= 0:
        return 0.0
    return min(first * 2.0 ** min(count - 1, 30), _LONGEST_INFRASTRUCTURE_WAIT_S)


def _keeping(after: After, fields: dict[str, Any]) -> After:
    return After(after.state, after.reason, after.how, {**after.fields, **fields})


def _said(failure: Failure | None) -> str:
    if failure is None:
        return ""
    # Only its first line: the rest (why, mend, …) is shown with the traceback.
    message = failure.message.strip().partition("\n")[0]
    said = ": ".join(part for part in (failure.kind.rpartition(".")[2], message) if part)
    return said[:300] + failure.where
