"""Forks worker processes that are known to have come alive.

Before Python 3.12, a child that is forked while another thread is being made known to the
interpreter waits for that thread's lock for ever: `PyOS_AfterFork_Child` looks at the threads
before it makes their lock anew. Threads of torch's collectives come and go as they like, so a
child has to say that it got past there. One that does not is killed and forked again.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import connection, util
from multiprocessing.context import ForkContext, ForkProcess
from multiprocessing.popen_fork import Popen
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn

from burst.core.units import counted
from burst.harness.data.errors import DataError

log = logging.getLogger(__name__)

DEADLINES_S = (*[0.5] * 8, 2.0, 4.0, 8.0, 16.0)
"""Seconds that each fork of a process has to answer in, one after the other: short ones against
forks that hang, which never answer, and long ones for a machine that is slow."""
_ALIVE = b"a"
_GO = b"g"


def context_for(wanted: Any) -> Any:
    """What to start workers with for a user's `multiprocessing_context`: where that comes to the
    standard library's fork, ours; anything else stays what it is."""
    method = multiprocessing.get_start_method() if wanted is None else wanted
    if method == ForkContext._name or type(method) is ForkContext:
        return AnsweringForkContext()
    return wanted


def check_started(processes: Iterable[Any]) -> None:
    """Look whether all of these, which `start()` was called for, came alive.

    Raises:
        DataError: one did not, however often it was forked.
    """
    if not any(getattr(process._popen, "given_up", False) for process in processes):
        return
    raise DataError(
        "a data loader worker process could not be started",
        why=f"it was forked {counted(len(DEADLINES_S), 'time')}, and did not come alive within "
        f"{DEADLINES_S[-1]:g} s the last time",
        mend="look for what stops or starves processes on this machine; num_workers=0 does "
        "without them, and multiprocessing_context='forkserver' starts them another way",
    )


class _AnsweringPopen(Popen):
    """The two pipes of multiprocessing's, each of which tells of an end of its process, carry an
    answer first: `alive` from the child on the one, `go` to it on the other. So a child that is
    given up has not come to the first line that could take the lock of a queue with it."""

    given_up = False

    def _launch(self, process_obj: BaseProcess) -> None:
        for deadline in DEADLINES_S:
            if self._fork(process_obj, deadline):
                return
            log.warning("a worker process did not come alive within %g s", deadline)
        # Found by `check_started`, as one among others that have to be ended: torch's loader
        # forgets its workers, and complains of that too, where the start of one raises.
        self.given_up = True
        self.returncode = -signal.SIGKILL
        self.sentinel, other = os.pipe()
        os.close(other)
        self.finalizer = util.Finalize(self, os.close, (self.sentinel,))

    def _fork(self, process_obj: BaseProcess, deadline: float) -> bool:
        """Whether the child came alive; there is none any more where it did not."""
        from_child, to_parent = os.pipe()
        from_parent, to_child = os.pipe()
        try:
            self.pid = os.fork()
        except BaseException:
            _close(from_child, to_parent, from_parent, to_child)
            raise
        if self.pid == 0:
            _be_child(process_obj, to_parent, from_parent, (from_child, to_child))
        _close(to_parent, from_parent)
        alive = False
        try:
            alive = _is_answered(from_child, to_child, deadline)
        finally:
            if not alive:
                _close(from_child, to_child)
                _end(self.pid)
        if alive:
            self.sentinel = from_child
            self.finalizer = util.Finalize(self, _close, (from_child, to_child))
        return alive


class _AnsweringProcess(ForkProcess):
    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Popen:  # noqa: N802
        return _AnsweringPopen(process_obj)


class AnsweringForkContext(ForkContext):
    """The `fork` context of multiprocessing, whose `start()` returns once the child is alive.

    Its processes differ in nothing else: identity, sentinel and exit code are what they would be
    had the first fork come alive, and no other one ran any code.
    """

    Process = _AnsweringProcess


def _is_answered(from_child: int, to_child: int, deadline: float) -> bool:
    if not connection.wait([from_child], deadline) or not os.read(from_child, 1):
        return False
    with suppress(BrokenPipeError):  # it died since, which shows like the death of any worker
        os.write(to_child, _GO)
    return True


def _be_child(
    process_obj: Any, to_parent: int, from_parent: int, of_parent: tuple[int, int]
) -> NoReturn:
    code = 1
    try:
        _close(*of_parent)
        os.write(to_parent, _ALIVE)
        if os.read(from_parent, 1) == _GO:
            code = process_obj._bootstrap(parent_sentinel=from_parent)
    finally:
        os._exit(code)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _end(pid: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):  # where SIGCHLD is ignored
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
