"""`burst pause`, `resume`, `cancel` and `kill`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from burst.cli.completing import any_id
from burst.cli.session import Session, pass_session

if TYPE_CHECKING:
    from burst.core.model import Experiment, Trial
    from burst.core.workspace import Workspace

    Act = Callable[[Workspace, str], object]


def _steering(command: Callable[..., Any]) -> Callable[..., Any]:
    """The argument and options that all four share."""
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


def _steer(session: Session, refs: tuple[str, ...], wait: bool, act: Act, goal: str) -> None:
    """Write the wishes, see to it that somebody acts on them, and say what goes on."""
    from burst.cli.ids import find_work
    from burst.cli.pushing import see_to_it

    found = [find_work(session.store, ref) for ref in refs]
    for record in found:
        act(session.workspace, record.id)
    see_to_it(session)
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
    from burst.cli.driving import driven
    from burst.cli.watching import LOOK_EVERY_S

    def ask(seen: Experiment | Trial) -> bool:
        return _reached(session, seen, goal)

    reached = driven(session, ask)
    while not reached(record := _read(session, record)):
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
