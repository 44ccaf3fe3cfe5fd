"""The process between the agent and what it runs, so that nothing outlives either of them.

    agent ── guard ── launcher ── ranks ── whatever they start

Started by path, with the standard library alone, so that it is up in milliseconds and stays small.
It gives the launcher a session of its own, collects every orphan below it (child subreaper), hands
SIGTERM on, and when the launcher ends or the agent does, kills all that is left. It hears of the
agent's end by the end of its stdin, which needs no signal and no timer and works after `kill -9`;
the launcher hears of the guard's end by its parent-death signal.

Usage: guard.py LOG WORKING_DIRECTORY PROGRAM [ARGUMENT…]; stdout receives the launcher's status
as `Popen.returncode` spells it (or `cannot start: …`), and closes when nothing is left.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LEFTOVERS_S = 10.0


def main(argv: list[str]) -> int:
    log, folder, *command = argv
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _only_wake)
    child, trouble = _start(log, folder, command)
    status = _watch(child, woken)
    _kill_leftovers(child)
    if trouble:
        os.write(1, b"cannot start: " + trouble)
    elif status is not None:
        os.write(1, b"%d" % status)
    return 0


def _only_wake(number: int, frame: object) -> None:
    """The handler is needed for the wake-up byte; the loop does the work."""


def _start(log: str, folder: str, command: list[str]) -> tuple[int, bytes]:
    """Fork the launcher: own session, stdout and stderr to `log`, stdin empty.

    Returns its process id and why it could not be started, empty where it was.
    """
    guard = os.getpid()
    heard, tell = os.pipe()  # closed by a successful exec
    child = os.fork()
    if child:
        os.close(tell)
        return child, os.read(heard, 1000)
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        _offer_to_the_oom_killer()
        os.chdir(folder)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(tell, f"{error.filename or command[0]}: {error.strerror}".encode())
    os._exit(1)


def _offer_to_the_oom_killer() -> None:
    """Of agent and ranks, the ranks go first: the agent can then say why."""
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("500")
    except OSError:
        pass


def _watch(child: int, woken: int) -> int | None:
    """The child's status once it has ended; None if the agent ended first."""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if 0 in ready and not os.read(0, 1):
            return None
        if woken not in ready:
            continue
        numbers = set(os.read(woken, 4096))
        if numbers & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
            _signal_group(child, signal.SIGTERM)
        status = _reap(child)
        if status is not None:
            return status


def _reap(child: int) -> int | None:
    """Collect whatever has ended; the status of `child` if it was among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = os.waitstatus_to_exitcode(status)


def _kill_leftovers(child: int) -> None:
    """Kill until there is no child, own or adopted; what the kernel holds on to is given up."""
    until = time.monotonic() + _LEFTOVERS_S
    while time.monotonic() < until:
        _signal_group(child, signal.SIGKILL)
        for pid in _descendants(os.getpid()):
            _signal(pid, signal.SIGKILL)
        _reap(child)
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        time.sleep(0.002)


def _descendants(root: int) -> list[int]:
    """Every process below `root`, from one look at /proc; empty where there is none."""
    children: dict[int, list[int]] = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _signal(pid: int, number: int) -> bool:
    """Whether the signal was sent: a process may be gone by now."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _signal_group(leader: int, number: int) -> bool:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
