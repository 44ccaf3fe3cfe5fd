"""Moving a trial to a pool of one's choice, and letting a pool that was stopped go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from burst.core.clock import Clock, SystemClock
from burst.core.errors import Refused
from burst.core.model import Allocation, DrainCause, Event, Experiment, Supply, Trial
from burst.core.states import Reason, TrialState, is_terminal
from burst.core.store import update
from burst.core.store.port import Append, Put, Write
from burst.core.workspace import Workspace
from burst.runner.admission import check_pool, misfit
from burst.runner.enforce import change_trial, config_of, grace_of
from burst.runner.pools.open import is_later, open_pools
from burst.runner.proof import losing_pools, needs_proof
from burst.runner.reconcile.exits import BACKING_OFF
from burst.runner.wishes import ask_to_leave, current_allocation

_CLOCK = SystemClock()


def move(
    ws: Workspace, id: str, pool: str, *, unproved: bool = False, clock: Clock = _CLOCK
) -> Trial:
    """Let a trial run in `pool` and nowhere else from now on.

    Where it runs in another one it finishes its batch, writes a checkpoint and leaves, and goes
    on in `pool` from there. Where it waits or is paused, only the place changes. Moving it to
    where it is bound already changes nothing.

    Args:
        unproved: go where nodes may be taken away although no checkpoint of it is proved.

    Raises:
        NotFound: no such trial, or no such pool.
        Refused: it can never run there, it is over or ending, or it would have to be proved first.
    """
    check_pool(pool, ws.cluster)
    experiment = ws.store.get(Experiment, ws.store.get(Trial, id).experiment)
    pools = {name: each for name, each in open_pools(ws).items() if name == pool}
    limits = {name: each.limits for name, each in pools.items() if not is_later(each)}
    problem = misfit(config_of(experiment), ws.cluster, limits, pool)
    if problem is not None:
        raise Refused(problem.what, why=problem.why, mend=problem.mend)
    losing = losing_pools(ws.cluster.pools)

    def decide(trial: Trial) -> Sequence[Write]:
        _must_be_open(trial)
        if not unproved:
            _must_be_proved(trial, pool, losing)
        allocation = current_allocation(ws.store, trial)
        return _moving(trial, allocation, pool, clock.now(), grace_of(experiment))

    change_trial(ws.store, id, decide, clock)
    return ws.store.get(Trial, id)


def resume_pool(ws: Workspace, name: str, *, clock: Clock = _CLOCK) -> Supply:
    """Let nodes be asked for again in a pool that was stopped or that rests, at once.

    What was counted against it is forgotten. Resuming a pool that nothing holds changes nothing.

    Raises:
        NotFound: the cluster has no such pool.
    """
    check_pool(name, ws.cluster)
    if ws.store.find(Supply, name) is None:
        return Supply(id=name)

    def change(supply: Supply) -> Sequence[Write]:
        changed = supply.model_copy(
            update={"stopped": None, "failures": 0, "failure": "", "refusals": {}}
        )
        if changed == supply:
            return ()
        event = Event(
            subject=name, name="pool.resumed", text="resumed by a person", at=clock.now()
        )
        return Put(changed), Append(event)

    return update(ws.store, Supply, name, change, clock=clock)


def _moving(
    trial: Trial, allocation: Allocation | None, pool: str, now: float, grace: float
) -> list[Write]:
    reason = Reason(code=DrainCause.MOVE.value, text=f"moved to pool {pool} by a person")
    writes: list[Write] = []
    if trial.state is TrialState.RUNNING and trial.pool != pool and allocation is not None:
        writes += ask_to_leave(allocation, DrainCause.MOVE, reason, now, grace)
    if trial.pools != (pool,):
        moved = trial.model_copy(update={"pools": (pool,), **_without_wait(trial)})
        writes += [Put(moved), Append(_event(trial, reason.text, now))]
    elif writes:
        writes.append(Put(trial))
    return writes


def _without_wait(trial: Trial) -> dict[str, None]:
    """What it waited for was the other pool, unless its own failures make it wait."""
    if trial.wait is None or trial.wait.code == BACKING_OFF:
        return {}
    return {"wait": None, "wait_until": None}


def _event(trial: Trial, text: str, now: float) -> Event:
    return Event(
        subject=trial.id, experiment=trial.experiment, name="trial.moved", text=text, at=now
    )


def _must_be_open(trial: Trial) -> None:
    if trial.state is TrialState.STOPPING:
        raise Refused(f"trial {trial.id} cannot be moved", why="it is ending already")
    if is_terminal(trial.state):
        raise Refused(
            f"trial {trial.id} cannot be moved",
            why=f"it is {trial.state} already: {trial.reason}",
            mend="submit it anew to train again",
        )


def _must_be_proved(trial: Trial, pool: str, losing: Mapping[str, bool]) -> None:
    """A trial that has trained where nodes stay does not move to where they are lost before one of
    its checkpoints is proved to restore; one that runs leaves a checkpoint."""
    has_trained = bool(trial.checkpoint) or trial.state is TrialState.RUNNING
    if trial.proved or not has_trained or not losing.get(pool) or losing.get(trial.pool):
        return
    if trial.unprovable:
        why = f"checkpoint {trial.checkpoint} did not come back as it was saved"
    else:
        why = "nodes may be taken away there, and no checkpoint of it is proved to restore"
    if trial.state is TrialState.RUNNING and needs_proof(trial, losing):
        mend = "wait until `burst show` tells that it is proved, or go without: --unproved"
    else:
        mend = "go without: --unproved; trials that list the pool are proved where they train"
    raise Refused(f"trial {trial.id} cannot be moved to pool {pool!r} yet", why=why, mend=mend)
