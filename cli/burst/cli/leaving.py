"""Leaving a `burst run` on Ctrl-C: what was submitted goes on, or is paused or cancelled if that
was asked for, and it is said which it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from burst.cli.ids import experiment_of_key
from burst.cli.session import Session
from burst.core.errors import BurstError, ExitCode, Refused
from burst.core.model import Experiment
from burst.core.states import is_terminal

if TYPE_CHECKING:
    from burst.cli.submitting import Prepared
    from burst.core.store.port import Store

_SUBMITTED = "experiment.active"
_PAGE = 500


@dataclass
class Progress:
    """How far a `burst run` has come."""

    prepared: Prepared | None = None
    """Set right before it is submitted."""
    cursor: str = ""
    """Where the events were then."""
    experiment: Experiment | None = None
    """What was submitted, or attached to."""
    key: str = ""
    """The name that it is submitted once under."""
    wish: str = "leave"
    """What becomes of it: `leave`, `pause` or `cancel`."""


def leave(session: Session, progress: Progress) -> int:
    """See to it that what was submitted goes on without this process, and say on stderr what it
    is; returns the exit status. Call it where no signal interrupts it.

    Raises:
        BurstError: it cannot be told whether it was submitted.
    """
    experiment = progress.experiment
    if experiment is None and progress.prepared is not None:
        experiment = _look(session, progress, progress.prepared)
    if experiment is None:
        session.note("\nInterrupted: nothing was submitted.")
        return ExitCode.INTERRUPTED
    if _is_over(session, experiment):
        session.note(f"\nInterrupted: {experiment.id} is over; `burst show {experiment.id}`.")
        return ExitCode.INTERRUPTED
    from burst.cli.elsewhere import hand_over
    from burst.cli.views.hints import left

    asked = express(session, progress.wish, experiment)
    hand_over(session, experiment)
    session.tell(left(experiment.id, asked))
    return ExitCode.INTERRUPTED


def express(session: Session, wish: str, experiment: Experiment) -> str:
    """Write down what is to become of it, where agents and runners look; returns what that is. May
    be repeated."""
    if wish == "leave":
        return wish
    from burst.runner import commands

    act = commands.pause if wish == "pause" else commands.cancel
    try:
        act(session.workspace, experiment.id, clock=session.clock)
    except Refused:  # it is about to end in another way
        return "leave"
    return wish


def _is_over(session: Session, experiment: Experiment) -> bool:
    try:
        return is_terminal(session.store.get(Experiment, experiment.id).state)
    except BurstError:
        return False  # then somebody has to go on looking


def _look(session: Session, progress: Progress, prepared: Prepared) -> Experiment | None:
    try:
        if progress.key:
            return experiment_of_key(session.store, progress.key)
        return submitted_since(session.store, prepared, progress.cursor)
    except BurstError as error:
        raise type(error)(
            "interrupted while it was submitted, and it cannot be told whether it was",
            why=f"{error.what}: {error.why}".removesuffix(": "),
            mend="`burst ls` prints the live ones; `burst run` again attaches to it if it is one",
        ) from error


def submitted_since(store: Store, prepared: Prepared, cursor: str) -> Experiment | None:
    """The experiment that an interrupted submission has written, if it came so far."""
    while True:
        page = store.events(cursor, limit=_PAGE)
        for event in page.events:
            found = store.find(Experiment, event.subject) if event.name == _SUBMITTED else None
            if found is not None and _is_of(found, prepared):
                return found
        if len(page.events) < _PAGE:
            return None
        cursor = page.cursor


def _is_of(experiment: Experiment, prepared: Prepared) -> bool:
    mine = (prepared.owner, prepared.packed.code.digest, prepared.loaded.source)
    return (experiment.owner, experiment.code.digest, experiment.source) == mine
