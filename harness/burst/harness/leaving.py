"""How a rank leaves, whatever the reason: what it reports, and what it leaves for the agent."""

from __future__ import annotations

import contextlib
import time

from burst.core.errors import BurstError, Fenced, Unreachable
from burst.core.launch import EXIT_FENCED, EXIT_INVALID_HP, LaunchSpec, Outcome, write_failure
from burst.core.model import ExitKind
from burst.harness.distributed import leave_gang
from burst.harness.errors import InvalidHP
from burst.harness.session import Session
from burst.harness.traces import failure_of


def leave_well(session: Session, spec: LaunchSpec | None, outcome: Outcome) -> None:
    """Make all reports durable and, from the first rank of every node, write the outcome. One that
    says that this attempt was asked to leave stands, whatever else its programs say then.

    Raises:
        Unreachable: the last metrics could not be stored.
        Fenced: a newer allocation owns the trial.
    """
    session.close()
    leave_gang()
    if spec is not None and session.distributed.local_rank == 0 and not has_left(spec):
        outcome.write(spec.path)


def has_left(spec: LaunchSpec) -> bool:
    """Whether this attempt has said that it left because it was asked to."""
    said = Outcome.read(spec.path)
    return said is not None and said.kind is ExitKind.DRAINED


def leave_badly(session: Session | None, spec: LaunchSpec | None, error: BaseException) -> int:
    """Send what can be sent soon and leave the error for the agent; returns the exit status."""
    if session is not None and session.reporter is not None:
        session.reporter.end_soon()
    if session is not None and session.engine is not None:
        # A save that waits for the next step to be confirmed is whole, and none will come.
        with contextlib.suppress(Exception):
            session.engine.settle()
    status, kind = status_of(error)
    if spec is None or status == 0 or (isinstance(error, SystemExit) and has_left(spec)):
        return status
    rank = session.distributed.rank if session is not None else 0
    note(spec, rank, error, status, kind)
    return status


def note(
    spec: LaunchSpec, rank: int, error: BaseException, status: int, kind: ExitKind | None
) -> None:
    """Leave an error for the agent, once a rank."""
    with contextlib.suppress(OSError):
        if kind is not None:
            Outcome(kind=kind, text=str(error)).write(spec.path)
        if not (spec.path / "failures" / f"rank{rank}.json").exists():
            write_failure(spec.path, rank, failure_of(error, rank, status), time.time())


def status_of(error: BaseException) -> tuple[int, ExitKind | None]:
    """The exit status for an error, and the outcome where the status does not say it all."""
    if isinstance(error, InvalidHP):
        return EXIT_INVALID_HP, ExitKind.INVALID_HP
    if isinstance(error, Fenced):
        return EXIT_FENCED, None
    if isinstance(error, Unreachable):
        return int(error.exit_code), ExitKind.INFRASTRUCTURE
    if isinstance(error, KeyboardInterrupt):
        return 130, None
    if isinstance(error, SystemExit):
        code = 0 if error.code is None else error.code
        return (code if isinstance(code, int) else 1), None
    return (int(error.exit_code) if isinstance(error, BurstError) else 1), None
