"""Seeing to it that what was asked for happens, when the asking command is about to leave."""

from __future__ import annotations

from burst.cli.driving import ensure_driven, is_driven
from burst.cli.session import Session
from burst.core.model import Experiment
from burst.core.states import ExperimentState
from burst.runner.loop import Runner, is_idle

_PASSES = 10
"""Passes at most while each one changes something: one thing leads to another."""


def see_to_it(session: Session) -> None:
    """Act once at once, and leave a runner behind where more is to be done than that.

    Call it after the wish was written. Where somebody drives on this machine there is nothing to
    do.
    """
    if is_driven(session.home):
        return
    runner = Runner(session.workspace, session.clock)
    for _ in range(_PASSES):
        if runner.step() != 0:
            break
    if not is_idle(session.store):
        ensure_driven(session.home, session.environ, session.cwd)


def needs_a_runner(session: Session) -> bool:
    """Whether an experiment would stand still without one."""
    return any(e.state is not ExperimentState.PAUSED for e in session.store.live(Experiment))
