"""How an attempt ended, decided from what its processes left behind. Pure."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from burst.core.launch import EXIT_FENCED, EXIT_INVALID_HP, Outcome
from burst.core.model import Drain, DrainCause, Exit, ExitKind, Failure

_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_BROKEN_DEVICES = re.compile(
    r"uncorrectable (?:NVLink|ECC) error|GPU has fallen off the bus|device-side hardware error",
    re.IGNORECASE,
)
"""What CUDA says where the device, not the program, is at fault."""
_DONE = (ExitKind.COMPLETED, ExitKind.STOPPED, ExitKind.DRAINED)


@dataclass(frozen=True)
class Ended:
    """What is known once nothing of an attempt runs any more."""

    status: int | None
    """The launcher's exit status, negative for a signal; None where it was killed or lost."""
    outcome: Outcome | None = None
    """What rank 0 said, if it came so far."""
    failure: Failure | None = None
    """Of the errors that ranks left before the agent forced anything, the cause of the others."""
    drain: Drain | None = None
    """What it had been asked to do."""
    forced: bool = False
    """Whether the agent terminated or killed it, as the drain's deadline or the lease demanded."""
    log: str = ""
    """The end of the log of the rank that failed first."""
    log_rank: int | None = None
    """That rank; None is the launcher."""
    out_of_memory: bool = False
    """Whether the kernel counted an out-of-memory kill while it ran."""
    trial_class: bool = False
    """Whether it ran a trial class, whose ranks say in every case how they ended."""
    connected: bool = False
    """Whether it used burst's API, and so would have said how it ended. Others cannot hear that
    they are asked to leave: one that ends by itself has come to its end."""


def classify(ended: Ended) -> Exit:
    """The exit to release an allocation with.

    What rank 0 wrote last wins over how the processes then came to their end: an outcome is
    written after its checkpoint is durable, so a crash while tearing down costs nothing. A
    failure that a rank left wins over being asked to leave, because leaving did not cause it.
    """
    if ended.drain is not None and ended.drain.cause is DrainCause.KILL:
        return Exit(kind=ExitKind.DRAINED, durable=False)
    said = ended.outcome
    if said is not None and said.kind in _DONE and ended.failure is None and not _took_back(ended):
        return Exit(kind=said.kind, durable=said.durable, text=said.text, code=said.code)
    quietly = ended.status == 0 and said is None
    if ended.failure is None and (
        ended.forced or (quietly and ended.drain is not None and ended.connected)
    ):
        return Exit(kind=ExitKind.DRAINED, durable=False)
    if ended.failure is None and quietly and not ended.trial_class:
        return Exit(kind=ExitKind.COMPLETED)
    failure = _failure(ended)
    return Exit(kind=_kind_of(ended, failure), failure=failure)


def _took_back(ended: Ended) -> bool:
    """Whether a script that said how training ended failed after all. It may choose a status of
    failure; signals, which end a process while it is torn down, are not chosen. Where a program
    said it that the command had started, the command had more to do, and a signal ended that."""
    said = ended.outcome
    if said is None or said.kind is ExitKind.DRAINED or ended.status == 0:
        return False
    if said.part:
        return True
    chosen = ended.status is not None and signal_of(ended.status) is None
    return said.status_to_come and chosen and not ended.forced


def _kind_of(ended: Ended, failure: Failure) -> ExitKind:
    codes = (ended.status, failure.exit_code)
    said = ended.outcome.kind if ended.outcome is not None else None
    if EXIT_INVALID_HP in codes or said is ExitKind.INVALID_HP:
        return ExitKind.INVALID_HP
    if EXIT_FENCED in codes or said is ExitKind.INFRASTRUCTURE:
        return ExitKind.INFRASTRUCTURE
    if _BROKEN_DEVICES.search(failure.message) or _BROKEN_DEVICES.search(failure.traceback):
        return ExitKind.INFRASTRUCTURE
    return ExitKind.CRASHED


def _failure(ended: Ended) -> Failure:
    """The user's own error: what a rank left, else what the log shows, else the bare status."""
    if ended.failure is not None:
        return ended.failure
    return ending(ended.status, ended.log, ended.log_rank, ended.out_of_memory)


def ending(status: int | None, log: str, rank: int | None, out_of_memory: bool = False) -> Failure:
    """The failure of a process that left none, from its status and the end of its log."""
    number = signal_of(status)
    # a signal ends a program between two lines: a traceback above it was one that it survived
    found = traceback_in(log) if number is None else None
    if found is not None:
        kind, message, text = found
    else:
        kind, message = _status_name(status), status_text(status, out_of_memory)
        text = last_lines(log)
    return Failure(kind=kind, message=message, traceback=text, rank=rank, exit_code=status)


def signal_of(status: int | None) -> signal.Signals | None:
    """The signal that an exit status tells of: -9, and 137 as shells and launchers spell it."""
    if status is None:
        return None
    try:
        return signal.Signals(-status if status < 0 else status - 128)
    except ValueError:
        return None


def _status_name(status: int | None) -> str:
    if status is None:
        return "lost"
    number = signal_of(status)
    return number.name if number is not None else f"exit {status}"


def status_text(status: int | None, out_of_memory: bool = False) -> str:
    """What became of a process, to follow its name: `ended with status 1`."""
    if status is None:
        return "was killed from outside"
    number = signal_of(status)
    if number is signal.SIGKILL and out_of_memory:
        return "was killed by the kernel: the machine ran out of memory"
    if number is signal.SIGKILL:
        return "was killed from outside; the usual cause is that memory ran out"
    if number is not None:
        return f"was ended by {number.name}"
    return f"ended with status {status}"


def traceback_in(log: str) -> tuple[str, str, str] | None:
    """(class, message, text) of the last Python traceback in `log`, with those it is chained to.

    A prefix that every line carries (`[rank0]: `) is taken off.
    """
    start = log.rfind(_TRACEBACK)
    if start < 0:
        return None
    prefix = log[log.rfind("\n", 0, start) + 1 : start]
    lines = [line.removeprefix(prefix) for line in log[start:].splitlines()]
    end = next((i for i, line in enumerate(lines) if i and line[:1].strip()), None)
    if end is None:
        return None
    kind, _, message = lines[end].partition(": ")
    text = "\n".join(lines[: end + 1])
    above = log[:start].removesuffix(prefix).rstrip().removesuffix(prefix.rstrip()).rstrip()
    if above.endswith(_CHAINED):
        earlier = traceback_in(above)
        link = next(phrase for phrase in _CHAINED if above.endswith(phrase))
        if earlier is not None:
            text = f"{earlier[2]}\n\n{link}\n\n{text}"
    return kind.strip(), message.strip(), text


def last_lines(log: str, lines: int = 20) -> str:
    return "\n".join(log.rstrip().splitlines()[-lines:])
