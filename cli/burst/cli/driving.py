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
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from burst.core.errors import Unreachable

_LOCK = "driving.lock"


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

    It outlives the caller and its terminal, and writes to `log/runner.log` in the home.
    """
    log = runner_log(home)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        started = subprocess.Popen(
            [sys.executable, "-m", "burst.cli", "runner", "--until-idle"],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd=cwd,
            env=dict(environ),
            start_new_session=True,
        )
    _forget(started)
    return started.pid


def ensure_driven(home: Path, environ: Mapping[str, str], cwd: Path) -> bool:
    """See to it that somebody drives; True where one had to be started.

    Call it after the wish was written. It returns once the new runner holds the lock.
    """
    if is_driven(home):
        return False
    pid = start_runner(home, environ, cwd)
    deadline = time.monotonic() + 30
    while not is_driven(home) and time.monotonic() < deadline:
        if _ended(pid):
            break
        time.sleep(0.02)
    return True


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


def _forget(process: subprocess.Popen[bytes]) -> None:
    """The process is on its own: Python need not warn that nobody waited for it."""
    process.returncode = 0


def _ended(pid: int) -> bool:
    ended, _ = os.waitpid(pid, os.WNOHANG)
    return ended == pid
