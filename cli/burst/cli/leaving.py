"""Leaving a `burst run` on Ctrl-C: what was submitted goes on, and it is said which it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from burst.cli.session import Session
from burst.core.errors import BurstError, ExitCode
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


def leave(session: Session, progress: Progress) -> int:
    """See to it that what was submitted goes on without this process, and say on stderr what it
    is; returns the exit status. Call it where no signal interrupts it.

    Raises:
        BurstError: it cannot be told whether it was submitted.
    """
    experiment = progress.experiment
    if experiment is None and progress.prepared is not None:
        experiment = _look(session, progress.prepared, progress.cursor)
    if experiment is None:
        session.note("\nInterrupted: nothing was submitted.")
        return ExitCode.INTERRUPTED
    if _is_over(session, experiment):
        session.note(f"\nInterrupted: {experiment.id} is over; `burst show {experiment.id}`.")
        return ExitCode.INTERRUPTED
    from burst.cli.handing_over import take_over
    from burst.cli.views.hints import background

    take_over(session.home, session.environ, session.cwd)
    session.tell(background(experiment.id, "goes on in the background"))
    return ExitCode.INTERRUPTED


def _is_over(session: Session, experiment: Experiment) -> bool:
    try:
        return is_terminal(session.store.get(Experiment, experiment.id).state)
    except BurstError:
        return False  # then somebody has to go on looking


def _look(session: Session, prepared: Prepared, cursor: str) -> Experiment | None:
    try:
        return submitted_since(session.store, prepared, cursor)
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
