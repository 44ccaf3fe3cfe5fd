"""Attempts that are over, attempts that leave too slowly, and attempts whose node is lost."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from burst.core.model import (
    Allocation,
    DrainCause,
    Exit,
    ExitKind,
    Experiment,
    Failure,
    Lease,
    Node,
    Trial,
)
from burst.core.states import AllocationState, Reason, TrialState
from burst.core.store import update
from burst.core.store.port import Put, Write
from burst.runner.endings import settle_trial
from burst.runner.enforce import config_of
from burst.runner.reconcile.context import Context, View
from burst.runner.reconcile.exits import After, after_exit, failures_in_a_row
from burst.runner.reconcile.policies import Verdict, apply_policies
from burst.runner.transitions import move
from burst.runner.wishes import ask_to_leave, current_allocation

log = logging.getLogger(__name__)

SLACK_S = 15.0
"""After a drain's deadline its agent ends it by itself; later than this it is told to kill."""
_ROW = 10
_FINAL = ("TrialError", "ConfigError", "RowsRefused")
"""Errors of what was written rather than of what happened: they come again every time."""


def reconcile_allocations(ctx: Context, view: View) -> float | None:
    """Bring trials whose attempt is over to their next state. Returns seconds until a deadline."""
    attempts = {(each.trial, each.attempt): each for each in view.allocations}
    next_in: float | None = None
    for trial in view.trials:
        if trial.state not in (TrialState.RUNNING, TrialState.STOPPING):
            continue
        allocation = attempts.get((trial.id, trial.attempts))
        if allocation is None:
            ctx.attempt(partial(settle, ctx, trial))
        elif allocation.drain is not None and allocation.drain.deadline is not None:
            left = allocation.drain.deadline + SLACK_S - ctx.clock.now()
            if left <= 0 and allocation.drain.cause is not DrainCause.KILL:
                ctx.attempt(partial(_kill, ctx, allocation))
            elif left > 0:
                next_in = left if next_in is None else min(next_in, left)
    return next_in


def settle(ctx: Context, seen: Trial) -> bool:
    """Give a trial its state after its newest attempt, if that is over. Idempotent."""
    changed = False

    def change(trial: Trial) -> Sequence[Write]:
        nonlocal changed
        changed = False
        if trial.state not in (TrialState.RUNNING, TrialState.STOPPING):
            return ()
        allocation = current_allocation(ctx.store, trial)
        if allocation is None or allocation.live:
            return ()
        changed = True
        experiment = ctx.store.get(Experiment, trial.experiment)
        return _writes_after(ctx, trial, allocation, experiment)

    update(ctx.store, Trial, seen.id, change, clock=ctx.clock)
    return changed


def _writes_after(
    ctx: Context, trial: Trial, allocation: Allocation, experiment: Experiment
) -> list[Write]:
    after = _after(ctx, trial, allocation, experiment)
    log.info("trial %s: %s, %s", trial.id, after.state, after.reason)
    return settle_trial(
        trial,
        after.state,
        after.reason,
        ctx.clock.now(),
        experiment=experiment,
        how=after.how,
        **after.fields,
    )


def _after(ctx: Context, trial: Trial, allocation: Allocation, experiment: Experiment) -> After:
    config = config_of(experiment)
    exit = allocation.exit
    crashed = exit is not None and exit.kind is ExitKind.CRASHED
    verdict = apply_policies(ctx.ws.blobs, config.log_policies, allocation) if crashed else None
    lost = allocation.state is AllocationState.LOST
    row: tuple[Allocation, ...] = ()
    if lost or exit is None or exit.kind is ExitKind.INFRASTRUCTURE:
        attempts = ctx.store.children(Allocation, trial.id, newest_first=True, limit=_ROW)
        older = [each for each in attempts if each.id != allocation.id]
        row = failures_in_a_row([allocation, *older])
    if verdict is not None and verdict.blocked:
        nodes = tuple(dict.fromkeys((*trial.blocked_nodes, *verdict.blocked)))
        trial = trial.model_copy(update={"blocked_nodes": nodes})
    after = after_exit(
        trial,
        allocation,
        config.max_restarts,
        ctx.clock.now(),
        row=row,
        stop_retrying=why_not_again(exit, verdict),
    )
    fields = {"blocked_nodes": trial.blocked_nodes, **after.fields}
    return After(after.state, after.reason, after.how, fields)


def why_not_again(exit: Exit | None, verdict: Verdict | None) -> str:
    """Why a crash is final whatever `max_restarts` says; empty where it is not."""
    if verdict is not None and verdict.stop_retrying:
        return verdict.stop_retrying
    kind = exit.failure.kind.rpartition(".")[2] if exit is not None and exit.failure else ""
    return "trying again would not help" if kind in _FINAL else ""


def _kill(ctx: Context, seen: Allocation) -> bool:
    changed = False

    def change(allocation: Allocation) -> Sequence[Write]:
        nonlocal changed
        reason = Reason(code="kill", text="it did not leave within its grace")
        writes = ask_to_leave(allocation, DrainCause.KILL, reason, ctx.clock.now(), 0.0)
        changed = bool(writes)
        return writes

    update(ctx.store, Allocation, seen.id, change, clock=ctx.clock)
    return changed


def lose_allocations(ctx: Context, view: View, node: Node, reason: Reason) -> bool:
    """Fence everything on `node`: its lease is revoked, its allocations are lost, each trial's
    token grows and it waits again, all of one allocation in one commit.

    Returns whether nothing of it is left to do; where someone was faster, the next pass goes on.
    """
    done = True
    for allocation in view.allocations:
        if any(share.node == node.id for share in allocation.shares):
            done = _lose(ctx, allocation.id, node, reason) and done
    return done and _revoke(ctx, node)


def _lose(ctx: Context, id: str, node: Node, reason: Reason) -> bool:
    allocation = ctx.store.find(Allocation, id)
    if allocation is None or not allocation.live:
        return True
    if node.id in allocation.ends:
        return True  # of a gang, what has come to its end on that node cannot be lost any more
    now = ctx.clock.now()
    lost, event = move(
        allocation,
        AllocationState.LOST,
        reason,
        now,
        experiment=allocation.experiment,
        ended=now,
        ends={**allocation.ends, **_lost_part(allocation, node, reason, now)},
    )
    writes: list[Write] = [Put(lost), event, *_revocation(ctx, node)]
    trial = ctx.store.get(Trial, allocation.trial)
    owns = trial.attempts == allocation.attempt and trial.state in (
        TrialState.RUNNING,
        TrialState.STOPPING,
    )
    if owns:
        experiment = ctx.store.get(Experiment, trial.experiment)
        fenced = trial.model_copy(update={"token": trial.token + 1})
        writes += _writes_after(ctx, fenced, lost, experiment)
    log.warning("allocation %s on node %s is lost: %s", id, node.id, reason)
    return ctx.commit(*writes)


def _lost_part(allocation: Allocation, node: Node, reason: Reason, now: float) -> dict[str, Exit]:
    """Of a gang, which part it was that took the others with it."""
    if len(allocation.shares) == 1:
        return {}
    failure = Failure(kind=reason.code, message=reason.text, node=node.id, at=now)
    return {node.id: Exit(kind=ExitKind.INFRASTRUCTURE, failure=failure, durable=False)}


def _revocation(ctx: Context, node: Node) -> list[Write]:
    lease = ctx.store.find(Lease, node.id)
    if lease is None or lease.revoked:
        return []
    return [Put(lease.model_copy(update={"revoked": True}))]


def _revoke(ctx: Context, node: Node) -> bool:
    writes = _revocation(ctx, node)
    return not writes or ctx.commit(*writes)
