"""How a script that burst is attached to comes to its end, and what is then said of it.

Such a script ends where its author had it end: it may save and evaluate after it has trained, call
`sys.exit`, catch whatever is raised through it. So the last word is said when its interpreter
leaves, with one exception: that it was asked to leave, which is said at once and then stands.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - see `Ending.install`
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from burst.core.errors import BurstError
from burst.core.launch import COMMAND_VARIABLE, LaunchSpec, Outcome
from burst.core.model import ExitKind
from burst.harness.leaving import has_left, leave_badly, leave_well
from burst.harness.session import Session
from burst.harness.traces import format_user_traceback

EARLY_STOPPING = "early_stopping"
"""The code of the reason of a trial that stopped itself."""
_TRY_AGAIN = 75
"""EX_TEMPFAIL of sysexits.h: what is wrong is only that it did not run to its end."""


class LeftEarly(BurstError):
    """A script left in the middle of its training. It may have had a reason that does not come
    again, such as a signal that it heard itself, so it is tried again."""


class Ending:
    """Says once, for this process, how training ended; the failure, if something fails."""

    def __init__(self, session: Session, spec: LaunchSpec | None) -> None:
        self._session = session
        self._spec = spec
        self._under_way = False
        self._outcome = Outcome(kind=ExitKind.COMPLETED)
        self._said = False
        self._process = os.getpid()
        self._next_hook: Callable[..., Any] = sys.excepthook

    @property
    def is_over(self) -> bool:
        """Whether the last word is said: nothing that is reported from then on is kept."""
        return self._said

    def install(self) -> None:
        """Have this process say how it ended when it does. Once a process.

        Raises:
            SystemExit: an earlier program of the same command has left because it was asked to.
        """
        if self._spec is not None:
            if has_left(self._spec):
                self._said = True
                self.leave()
            (self._spec.path / "outcome.json").unlink(missing_ok=True)
        self._next_hook, sys.excepthook = sys.excepthook, self._failed
        # `atexit` comes after threads can be started and executors asked, which the last
        # checkpoint and the last metrics may need. This comes before, in reverse order.
        threading._register_atexit(self._finish)  # type: ignore[attr-defined]

    def begun(self) -> None:
        """A training is under way, and is to be heard of again."""
        self._under_way = True

    def completed(self) -> None:
        """It came to its end. The script may go on, and train again."""
        self._under_way = False
        self._outcome = Outcome(kind=ExitKind.COMPLETED)

    def stopped(self, text: str, code: str = EARLY_STOPPING) -> None:
        """It ended itself early, for good.

        Args:
            text: why, for the reason of the trial: a sentence without its full stop.
        """
        self._under_way = False
        self._outcome = Outcome(kind=ExitKind.STOPPED, text=text, code=code)

    def drained(self, durable: bool) -> None:
        """It was asked to leave, and has saved its state. Said at once: whatever the script does
        now, until it is ended, changes nothing.

        Args:
            durable: whether all that is trained is in a durable checkpoint.

        Raises:
            Unreachable: the last metrics could not be stored.
            Fenced: a newer allocation owns the trial.
        """
        self._under_way = False
        self._say(Outcome(kind=ExitKind.DRAINED, durable=durable))

    def leave(self) -> NoReturn:
        """Leave the script after `drained`.

        The status is 0 where this process is the command itself. Below a shell or a launcher it is
        one of failure, so that what comes after training (`python train.py && python publish.py`)
        does not take half of it for the whole.
        """
        status = 0 if _is_command() else _TRY_AGAIN
        if status:
            self._session.say(
                f"burst: left as it was asked to, with status {_TRY_AGAIN} for the shell or "
                "launcher that waits for it; that is no failure of the trial"
            )
        if threading.current_thread() is not threading.main_thread():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)  # SystemExit would end the thread, and the script would go on
        raise SystemExit(status)

    def _say(self, outcome: Outcome) -> None:
        if self._said:
            return
        batches = self._session.progress.measure().batches
        leave_well(self._session, self._spec, outcome.model_copy(update={"batches": batches}))
        self._said = True

    def _failed(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        self._next_hook(kind, error, trace)
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._said or os.getpid() != self._process:
            return
        self._said = True
        leave_badly(self._session, self._spec, error)

    def _finish(self) -> None:
        """Before this interpreter ends. A fork of it has nothing to say."""
        if self._said or os.getpid() != self._process:
            return
        error: BaseException | None = getattr(
            sys, "last_value", None
        )  # where the script has a hook of its own
        if error is None and self._under_way:
            error = _left_early()
            sys.stderr.write(format_user_traceback(error))
        if error is not None:
            self._fail(error)
            return
        try:
            said = {"status_to_come": True, "part": not _is_command()}
            self._say(self._outcome.model_copy(update=said))
        except BaseException as untold:
            self._fail(untold)
            raise


def _is_command() -> bool:
    """Whether this process is the trial's command itself, not one that it has started."""
    return os.environ.get(COMMAND_VARIABLE) == str(os.getpid())


def _left_early() -> LeftEarly:
    return LeftEarly(
        "the script ended before its training did",
        why="something in it called sys.exit, or caught what ended the training and left",
        mend="to end training early, set control.should_training_stop in a callback",
    )
