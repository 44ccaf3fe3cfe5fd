"""Whether others decide and act already, so that a command only asks and watches.

Where the cluster's account has a function (`aws.runner`), it runs when something is submitted, and
every minute. Then nobody's machine has to drive, and who may submit need not be allowed to buy
machines. A `local` pool is the exception: its agent is started on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from burst.cli.session import Session
from burst.core.model import Experiment, Trial
from burst.core.states import is_terminal

if TYPE_CHECKING:
    from burst.cli.driver import Driver

T = TypeVar("T")


def is_driven_elsewhere(session: Session, pools: Iterable[str]) -> bool:
    """Whether the cluster's function does all that trials in these pools need."""
    from burst.runner.pools.elsewhere import left_to_people

    cluster = session.workspace.cluster
    return cluster.has_function and left_to_people(cluster).isdisjoint(pools)


def pools_of(session: Session, record: Experiment | Trial) -> tuple[str, ...]:
    """Where it may run."""
    if isinstance(record, Trial):
        return record.pools
    named = (record.config.get("resources") or {}).get("pools")
    return tuple(named or list(session.workspace.cluster.pools)[:1])


def driver_for(
    session: Session, experiment: Experiment
) -> AbstractContextManager[Driver] | AbstractContextManager[None]:
    """What drives in this process while inside, where that is needed."""
    over = is_terminal(experiment.state)
    if over or is_driven_elsewhere(session, pools_of(session, experiment)):
        return nullcontext()
    from burst.cli.driver import Driver

    return Driver(session.workspace)


def see_driven(session: Session, record: Experiment | Trial) -> None:
    """See to it that somebody drives. Call it after the wish was written."""
    if not is_driven_elsewhere(session, pools_of(session, record)):
        from burst.cli.driving import ensure_driven

        ensure_driven(session.home, session.environ, session.cwd)


def hand_over(session: Session, record: Experiment | Trial) -> None:
    """See to it that somebody drives when this process has left, with its credentials if any."""
    if not is_driven_elsewhere(session, pools_of(session, record)):
        from burst.cli.handing_over import take_over

        take_over(session.home, session.environ, session.cwd)


def driven(
    session: Session, record: Experiment | Trial, until: Callable[[T], bool]
) -> Callable[[T], bool]:
    """`until`, and while it does not hold somebody drives."""
    if is_driven_elsewhere(session, pools_of(session, record)):
        return until
    from burst.cli.driving import driven

    return driven(session, until)
