"""Seeing to it that what was asked for happens, when the asking command is about to leave."""

from __future__ import annotations

from collections.abc import Sequence

from burst.cli.driving import ensure_driven, is_driven, start_runner
from burst.cli.elsewhere import is_driven_elsewhere
from burst.cli.handing_over import bring
from burst.cli.session import Session
from burst.core.model import Experiment
from burst.core.states import ExperimentState
from burst.runner.loop import Runner, is_idle

_PASSES = 10
"""Passes at most while each one changes something: one thing leads to another."""


def see_to_it(session: Session, pools: Sequence[str]) -> None:
    """Act once at once, and leave a runner behind where more is to be done than that.

    Call it after the wish was written. Where somebody drives on this machine there is nothing to
    do, unless this shell brings other credentials; nor where the cluster's function does it.

    Args:
        pools: where that which is to happen happens.
    """
    if is_driven_elsewhere(session, pools):
        return
    brought = bring(session.home, session.environ)
    if is_driven(session.home) and not brought:
        return
    runner = Runner(session.workspace, session.clock)
    for _ in range(_PASSES):
        if runner.step() != 0:
            break
    if not is_idle(session.store):
        if brought:
            start_runner(session.home, session.environ, session.cwd)
        ensure_driven(session.home, session.environ, session.cwd)


def needs_a_runner(session: Session) -> bool:
    """Whether an experiment would stand still without one."""
    return any(e.state is not ExperimentState.PAUSED for e in session.store.live(Experiment))
