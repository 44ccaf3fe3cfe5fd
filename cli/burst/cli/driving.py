"""Who drives: at most a look whether some process on this machine already calls reconcile.

Any number of runners may work at once, so this is never needed for safety; it keeps commands from
starting one where one is. A driver holds a shared lock on a file in the home, which the kernel
gives back whatever becomes of the process.

Whoever wants something done writes the wish first and looks for a driver after. A driver that is
about to leave gives the lock back first and looks for work after. So either the wish is seen or
the missing lock is.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from burst.cli.session import Session
from burst.core.errors import Unreachable

T = TypeVar("T")

DRIVEN_EVERY_S = 5.0
"""Between two looks whether somebody drives still."""
_LOCK = "driving.lock"
_BORN_WITH = "BURST_DRIVING"
"""The number of the descriptor with the lock, in the environment of a runner that was started."""


@contextmanager
def driving(home: Path) -> Iterator[None]:
    """Be counted as a driver while inside."""
    descriptor = _open(home)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def is_driven(home: Path) -> bool:
    """Whether some process on this machine drives now."""
    descriptor = _open(home)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def start_runner(home: Path, environ: Mapping[str, str], cwd: Path) -> int:
    """Start `burst runner --until-idle` in a session of its own; returns its process id.

    It outlives the caller and its terminal, and writes to `log/runner.log` in the home. It is born
    with the lock, so it is a driver before this returns.
    """
    log = runner_log(home)
    log.parent.mkdir(parents=True, exist_ok=True)
    lock = _open(home)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        with log.open("ab") as sink:
            started = subprocess.Popen(
                [sys.executable, "-m", "burst.cli", "runner", "--until-idle"],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd=cwd,
                env={**environ, _BORN_WITH: str(lock)},
                pass_fds=(lock,),
                start_new_session=True,
            )
    finally:
        os.close(lock)
    started.returncode = 0  # it is on its own: nobody waits for it
    return started.pid


def drop_inherited() -> None:
    """In a runner that was born with the lock: give that one back, for it has its own now."""
    descriptor = os.environ.pop(_BORN_WITH, "")
    if descriptor.isdecimal():
        os.close(int(descriptor))


def ensure_driven(home: Path, environ: Mapping[str, str], cwd: Path) -> None:
    """See to it that somebody drives. Call it after the wish was written."""
    if not is_driven(home):
        start_runner(home, environ, cwd)


def driven(session: Session, until: Callable[[T], bool]) -> Callable[[T], bool]:
    """`until`, and while it does not hold somebody drives: whoever did may have died."""
    looked = session.clock.monotonic()

    def ask(seen: T) -> bool:
        nonlocal looked
        if until(seen):
            return True
        if session.clock.monotonic() - looked >= DRIVEN_EVERY_S:
            looked = session.clock.monotonic()
            ensure_driven(session.home, session.environ, session.cwd)
        return False

    return ask


def runner_log(home: Path) -> Path:
    return home / "log" / "runner.log"


def _open(home: Path) -> int:
    try:
        home.mkdir(parents=True, exist_ok=True)
        return os.open(home / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise Unreachable(
            f"{home} cannot be written",
            why=str(error),
            mend="free or unlock it, or name another folder with BURST_HOME",
        ) from error
