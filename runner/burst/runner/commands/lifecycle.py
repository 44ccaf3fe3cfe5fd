"""Pause, resume, cancel and kill, for an experiment or one of its trials.

Each writes the wish at once, where agents and runners look, so it works with no runner alive; what
follows from it is done by whoever reconciles next. Each may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from burst.core.clock import Clock, SystemClock
from burst.core.errors import Refused
from burst.core.ids import check_id
from burst.core.model import DrainCause, Experiment, Trial
from burst.core.states import ExperimentState, Reason, TrialState, is_terminal
from burst.core.store import update
from burst.core.store.port import Put, Store, Write
from burst.core.workspace import Workspace
from burst.runner.enforce import KILLED, change_trial, end_trial, enforce, grace_of
from burst.runner.transitions import move
from burst.runner.wishes import current_allocation, want_paused

_CLOCK = SystemClock()

Changed = Experiment | Trial


def pause(
    ws: Workspace, id: str, *, why: str = "paused by a person", clock: Clock = _CLOCK
) -> Changed:
    """Checkpoint what runs and give its slots back; what waits stays held.

    Args:
        why: what an experiment says of itself from then on.

    Raises:
        NotFound: no such experiment or trial.
        Refused: it is over, or about to be.
    """
    if _is_trial(id):
        return _pause_trial(ws.store, id, clock)

    def change(experiment: Experiment) -> Sequence[Write]:
        _must_be_open(experiment, "pause")
        if experiment.state is ExperimentState.PAUSED:
            return ()
        reason = Reason(code="paused", text=why)
        return _moved(experiment, ExperimentState.PAUSED, reason, clock)

    return _enforced(ws.store, update(ws.store, Experiment, id, change, clock=clock), clock)


def resume(ws: Workspace, id: str, *, clock: Clock = _CLOCK) -> Changed:
    """Let it go on. Resuming an experiment resumes all of its trials, whoever paused them.

    Raises:
        NotFound: no such experiment or trial.
        Refused: it is over or about to be; or a trial whose experiment is paused.
    """
    if _is_trial(id):
        trial = ws.store.get(Trial, id)
        experiment = ws.store.get(Experiment, trial.experiment)
        if experiment.state is ExperimentState.PAUSED and not is_terminal(trial.state):
            raise Refused(
                f"trial {id} cannot go on by itself",
                why=f"its experiment {experiment.id} is paused",
                mend=f"`burst resume {experiment.id}`",
            )
        change_trial(ws.store, id, lambda found: _resume_trial(found, clock), clock)
        return ws.store.get(Trial, id)

    def change(experiment: Experiment) -> Sequence[Write]:
        _must_be_open(experiment, "resume")
        if experiment.state is ExperimentState.ACTIVE:
            return ()
        reason = Reason(code="resumed", text="resumed by a person")
        return _moved(experiment, ExperimentState.ACTIVE, reason, clock)

    changed = update(ws.store, Experiment, id, change, clock=clock)
    for trial in ws.store.children(Trial, id):
        if trial.state is TrialState.PAUSED or trial.wanted is TrialState.PAUSED:
            change_trial(ws.store, trial.id, lambda found: _resume_if_open(found, clock), clock)
    return changed


def cancel(ws: Workspace, id: str, *, clock: Clock = _CLOCK) -> Changed:
    """End it for good, with a last checkpoint.

    Raises:
        NotFound: no such experiment or trial.
        Refused: it has ended otherwise already.
    """
    reason = Reason(code="cancelled", text="cancelled by a person")
    return _end(ws, id, DrainCause.CANCEL, reason, clock)


def kill(ws: Workspace, id: str, *, clock: Clock = _CLOCK) -> Changed:
    """End it for good and at once: what was trained since the last checkpoint is lost.

    Raises:
        NotFound: no such experiment or trial.
        Refused: it has ended otherwise already.
    """
    return _end(ws, id, DrainCause.KILL, Reason(code=KILLED, text="killed by a person"), clock)


def _end(ws: Workspace, id: str, cause: DrainCause, reason: Reason, clock: Clock) -> Changed:
    verb = "kill" if cause is DrainCause.KILL else "cancel"
    if _is_trial(id):
        trial = ws.store.get(Trial, id)
        if trial.state is not TrialState.CANCELLED:
            _must_not_be_over(trial, verb)
        end_trial(ws.store, id, cause, reason, clock)
        return ws.store.get(Trial, id)

    def change(experiment: Experiment) -> Sequence[Write]:
        if experiment.state is ExperimentState.CANCELLED:
            return ()
        _must_not_be_over(experiment, verb)
        if experiment.state is not ExperimentState.STOPPING:
            return _moved(experiment, ExperimentState.STOPPING, reason, clock, ending="cancelled")
        if cause is DrainCause.KILL and experiment.reason.code != KILLED:
            return (Put(experiment.model_copy(update={"reason": reason})),)
        return ()

    return _enforced(ws.store, update(ws.store, Experiment, id, change, clock=clock), clock)


def _pause_trial(store: Store, id: str, clock: Clock) -> Trial:
    def decide(trial: Trial) -> Sequence[Write]:
        if trial.state is TrialState.STOPPING:
            raise Refused(f"trial {id} cannot be paused", why="it is ending already")
        _must_not_be_over(trial, "pause")
        if trial.state is TrialState.WAITING and trial.wanted is None:
            # It has no slots to give back; it is held where it is until it is resumed.
            return (Put(trial.model_copy(update={"wanted": TrialState.PAUSED})),)
        experiment = store.get(Experiment, trial.experiment)
        reason = Reason(code="paused", text="paused by a person")
        allocation = current_allocation(store, trial)
        return want_paused(trial, allocation, reason, clock.now(), grace_of(experiment))

    change_trial(store, id, decide, clock)
    return store.get(Trial, id)


def _resume_trial(trial: Trial, clock: Clock) -> Sequence[Write]:
    if trial.state is TrialState.STOPPING:
        raise Refused(f"trial {trial.id} cannot be resumed", why="it is ending already")
    _must_not_be_over(trial, "resume")
    return _resume_if_open(trial, clock)


def _resume_if_open(trial: Trial, clock: Clock) -> Sequence[Write]:
    now = clock.now()
    if trial.state is TrialState.PAUSED:
        reason = Reason(code="resumed", text="resumed by a person")
        waiting, event = move(
            trial, TrialState.WAITING, reason, now, experiment=trial.experiment, queued=now
        )
        return (Put(waiting), event)
    if trial.wanted is TrialState.PAUSED:
        # It is held, or still draining: then it waits again as soon as it has left.
        return (Put(trial.model_copy(update={"wanted": None})),)
    return ()


def _moved(
    experiment: Experiment, to: ExperimentState, reason: Reason, clock: Clock, **fields: object
) -> Sequence[Write]:
    changed, event = move(experiment, to, reason, clock.now(), experiment=experiment.id, **fields)
    return (Put(changed), event)


def _enforced(store: Store, experiment: Experiment, clock: Clock) -> Experiment:
    trials = [trial for trial in store.children(Trial, experiment.id) if trial.live]
    enforce(store, experiment, trials, clock)
    return store.get(Experiment, experiment.id)


def _is_trial(id: str) -> bool:
    return "." in check_id(id)


def _must_be_open(experiment: Experiment, verb: str) -> None:
    if experiment.state is ExperimentState.STOPPING:
        raise Refused(f"experiment {experiment.id} cannot be {_past(verb)}", why="it is ending")
    _must_not_be_over(experiment, verb)


def _must_not_be_over(record: Experiment | Trial, verb: str) -> None:
    if is_terminal(record.state):
        raise Refused(
            f"{record.kind} {record.id} cannot be {_past(verb)}",
            why=f"it is {record.state} already: {record.reason}",
            mend="submit it anew to train again",
        )


def _past(verb: str) -> str:
    return {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "kill": "killed"}[verb]
