"""`burst pause`, `resume`, `cancel`, `kill` and `move`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from burst.cli.completing import any_id, pool_name
from burst.cli.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from burst.core.model import Experiment, Trial
    from burst.core.workspace import Workspace

    Act = Callable[[Workspace, str], object]

R = TypeVar("R", "Experiment", "Trial", "Experiment | Trial")


def _steering(command: Callable[..., Any]) -> Callable[..., Any]:
    """The argument and options that the four share that take a whole experiment, too."""
    command = click.option("-w", "--wait", is_flag=True, help="Return once it has happened.")(
        command
    )
    return click.argument("ids", metavar="ID...", nargs=-1, required=True, shell_complete=any_id)(
        pass_session(command)
    )


@click.command()
@_steering
def pause(session: Session, ids: tuple[str, ...], wait: bool) -> None:
    """Checkpoint and give back the slots.

    Running trials finish their batch, write a checkpoint and leave; `burst resume` goes on from
    there as if nothing had been. Pausing what is paused changes nothing.
    """
    from burst.runner import commands

    _steer(session, ids, wait, commands.pause, "paused")


@click.command()
@_steering
def resume(session: Session, ids: tuple[str, ...], wait: bool) -> None:
    """Go on from where a pause left off.

    A runner is started in the background where none is; `burst show` and `burst logs -f` follow.
    """
    from burst.runner import commands

    _steer(session, ids, wait, commands.resume, "running")


@click.command()
@_steering
def cancel(session: Session, ids: tuple[str, ...], wait: bool) -> None:
    """End for good, with a last checkpoint."""
    from burst.runner import commands

    _steer(session, ids, wait, commands.cancel, "over")


@click.command()
@_steering
def kill(session: Session, ids: tuple[str, ...], wait: bool) -> None:
    """End at once, without a checkpoint.

    What was trained since the last checkpoint is lost; `burst cancel` is gentler.
    """
    from burst.runner import commands

    _steer(session, ids, wait, commands.kill, "over")


@click.command()
@click.argument("trials", metavar="TRIAL...", nargs=-1, required=True, shell_complete=any_id)
@click.option(
    "--pool", required=True, metavar="POOL", help="Where to run.", shell_complete=pool_name
)
@click.option(
    "--unproved",
    is_flag=True,
    help="Go where nodes may be taken away although no checkpoint is proved to restore.",
)
@click.option("-w", "--wait", is_flag=True, help="Return once it runs there.")
@json_option
@pass_session
def move(
    session: Session,
    trials: tuple[str, ...],
    pool: str,
    unproved: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Pause on one pool, resume on another.

    A trial that runs finishes its batch, writes a checkpoint and leaves; it goes on in the pool
    from there, to the bit. One that waits or is paused only changes where it will run. It stays in
    that pool, whatever pools its experiment names, until it is moved again; moving it to where it
    is changes nothing. --json prints an array of `Trial`.
    """
    from burst.cli import encoding
    from burst.cli.ids import find_trial
    from burst.cli.pushing import see_to_it
    from burst.runner import commands

    found = [find_trial(session.store, ref) for ref in trials]
    for trial in found:
        commands.move(session.workspace, trial.id, pool, unproved=unproved, clock=session.clock)
    see_to_it(session, [name for trial in found for name in (*trial.pools, pool)])
    seen = [_arrived(session, trial, pool) if wait else trial for trial in found]
    now = [session.store.get(type(trial), trial.id) for trial in seen]
    if as_json:
        session.json([encoding.trial_json(trial, session.clock.now()) for trial in now])
        return
    for trial in now:
        session.note(_told_of_move(trial, pool))


def _arrived(session: Session, trial: Trial, pool: str) -> Trial:
    from burst.core.states import TrialState, is_terminal

    def is_there(seen: Trial) -> bool:
        trains = seen.pool == pool and seen.state is TrialState.RUNNING
        return trains or seen.state is TrialState.PAUSED or is_terminal(seen.state)

    return _wait_until(session, trial, is_there)


def _told_of_move(trial: Trial, pool: str) -> str:
    state, id = str(trial.state), trial.id
    if state == "paused" or trial.wanted == "paused":
        return f"{id} is paused and will go on in pool {pool}; let it with: burst resume {id}"
    if state == "running" and trial.pool == pool:
        return f"{id} runs in pool {pool}; follow it with: burst logs {id} -f"
    if state == "running":
        return f"{id} finishes its batch, checkpoints and goes on in pool {pool}"
    if state == "waiting":
        return f"{id} waits for pool {pool}; burst why {id} says what for"
    return f"{id} is {state}."


def _steer(session: Session, refs: tuple[str, ...], wait: bool, act: Act, goal: str) -> None:
    """Write the wishes, see to it that somebody acts on them, and say what goes on."""
    from burst.cli.elsewhere import pools_of
    from burst.cli.ids import find_work
    from burst.cli.pushing import see_to_it

    found = [find_work(session.store, ref) for ref in refs]
    for record in found:
        act(session.workspace, record.id)
    see_to_it(session, [name for record in found for name in pools_of(session, record)])
    for record in found:
        now = _wait_for(session, record, goal) if wait else _read(session, record)
        session.note(_told(record.id, str(now.state), goal))
        for words in _alarms(session, record) if wait else ():
            session.note(words)


def _alarms(session: Session, record: Experiment | Trial) -> list[str]:
    """What a person has to know of the trials that were held."""
    from burst.core.checkpoints.assurance.age import alarm
    from burst.core.model import Trial

    whole = not isinstance(record, Trial)
    trials = session.store.children(Trial, record.id) if whole else [_read(session, record)]
    found = [(t.id, alarm(t, session.clock.now())) for t in trials if isinstance(t, Trial)]
    return [f"{id}: {words}" for id, words in found if words]


def _read(session: Session, record: Experiment | Trial) -> Experiment | Trial:
    return session.store.get(type(record), record.id)


def _wait_for(session: Session, record: Experiment | Trial, goal: str) -> Experiment | Trial:
    return _wait_until(session, record, lambda seen: _reached(session, seen, goal))


def _wait_until(session: Session, record: R, ask: Callable[[R], bool]) -> R:
    from burst.cli.elsewhere import driven
    from burst.cli.watching import LOOK_EVERY_S

    reached = driven(session, record, ask)
    while not reached(record := session.store.get(type(record), record.id)):
        session.clock.sleep(LOOK_EVERY_S)
    return record


def _reached(session: Session, record: Experiment | Trial, goal: str) -> bool:
    from burst.cli.following import BUSY
    from burst.core.model import Experiment, Trial
    from burst.core.states import TrialState, is_terminal

    if is_terminal(record.state):
        return True
    if goal == "over":
        return False
    if isinstance(record, Trial):
        held = record.state is TrialState.WAITING and record.wanted is TrialState.PAUSED
        return str(record.state) == goal or (goal == "paused" and held)
    mine = [t for t in session.store.live(Trial) if t.experiment == record.id]
    if goal == "paused":
        return str(record.state) == "paused" and not any(t.state in BUSY for t in mine)
    return isinstance(record, Experiment) and any(str(t.state) == goal for t in mine)


def _told(id: str, state: str, goal: str) -> str:
    if state in ("completed", "cancelled", "failed", "stopped"):
        return f"{id} is {state}."
    if goal == "paused" and state == "paused":
        return f"{id} is paused; go on with: burst resume {id}"
    if goal == "paused":
        return f"{id} finishes its batch, checkpoints and is paused; go on with: burst resume {id}"
    if goal == "running":
        return f"{id} is {state}; follow it with: burst logs {id} -f"
    return f"{id} is {state} and ends in the background; wait for it with: burst wait {id}"
