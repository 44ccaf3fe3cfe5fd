"""One rank of a trial, or the command that a trial runs: `python -m burst.harness.rank`.

What it leaves behind for the agent: its output in `logs/rank<N>.log`, its error in
`failures/rank<N>.json`, from rank 0 an `outcome.json`, and an exit status.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from burst.core.errors import BurstError, Fenced, Unreachable
from burst.core.launch import (
    EXIT_FENCED,
    EXIT_INVALID_HP,
    LaunchSpec,
    Outcome,
    read_launch,
    write_failure,
)
from burst.core.model import ExitKind, Failure
from burst.harness.errors import InvalidHP
from burst.harness.process import Terminated, die_with_parent, write_output_to
from burst.harness.traces import failure_of, failure_of_exit, format_user_traceback

_CLASS = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")


def is_class(entrypoint: object) -> bool:
    """Whether an entrypoint names a trial class (`module:Class`) rather than a command."""
    return isinstance(entrypoint, str) and _CLASS.match(entrypoint) is not None


def main() -> int:
    """Run this process's rank; returns its exit status."""
    spec = read_launch()
    if spec is None:
        raise SystemExit("BURST_LAUNCH is not set: this is what the launcher starts")
    rank = int(os.environ.get("RANK", "0"))
    die_with_parent()
    write_output_to(spec.log_path(rank))
    os.chdir(spec.path / "code")
    try:
        if is_class(spec.config["entrypoint"]):
            _run_trial(spec, rank)
        else:
            return _run_command(spec, rank)
    except BaseException as error:
        return end_badly(spec, rank, error)
    return 0


def _run_trial(spec: LaunchSpec, rank: int) -> None:
    terminated = Terminated(lambda: _others_failed(spec, rank))
    sys.path.insert(0, str(spec.path / "code"))
    from burst.harness.trial.run import run_trial

    outcome = run_trial(spec, lambda: terminated.asked)
    if rank == 0:
        outcome.write(spec.path)


def _others_failed(spec: LaunchSpec, rank: int) -> bool:
    mine = f"rank{rank}.json"
    return any(path.name != mine for path in (spec.path / "failures").glob("rank*.json"))


def end_badly(spec: LaunchSpec, rank: int, error: BaseException) -> int:
    """Leave an error for the agent and print it for people; returns the exit status."""
    if isinstance(error, SystemExit) and not error.code:
        return 0
    status, kind = _status_of(error)
    sys.stderr.write(format_user_traceback(error))
    sys.stderr.flush()
    if kind is not None and (rank == 0 or kind is not ExitKind.INFRASTRUCTURE):
        with contextlib.suppress(OSError):
            Outcome(kind=kind, text=str(error)).write(spec.path)
    with contextlib.suppress(OSError):
        write_failure(spec.path, rank, failure_of(error, rank, status), time.time())
    return status


def _status_of(error: BaseException) -> tuple[int, ExitKind | None]:
    if isinstance(error, InvalidHP):
        return EXIT_INVALID_HP, ExitKind.INVALID_HP
    if isinstance(error, Fenced):
        return EXIT_FENCED, None
    if isinstance(error, Unreachable):
        return int(error.exit_code), ExitKind.INFRASTRUCTURE
    if isinstance(error, KeyboardInterrupt):
        return 130, None
    if isinstance(error, SystemExit):
        return (error.code if isinstance(error.code, int) else 1), None
    return (int(error.exit_code) if isinstance(error, BurstError) else 1), None


def _run_command(spec: LaunchSpec, rank: int) -> int:
    """Run the experiment's command as a child, so that its end can be told whatever it was."""
    from burst.harness.interpolate import command_of

    words = command_of(spec.config["entrypoint"], spec.hparams)
    try:
        child = subprocess.Popen(words, preexec_fn=die_with_parent)
    except OSError as error:
        raise BurstError(
            f"the command {words[0]!r} cannot be started",
            why=str(error),
            mend="the first word of `entrypoint` is a program on the PATH or in the code folder",
        ) from None
    signal.signal(signal.SIGTERM, lambda *_: child.send_signal(signal.SIGTERM))
    status = child.wait()
    if status == 0:
        if rank == 0 and Outcome.read(spec.path) is None:
            Outcome(kind=ExitKind.COMPLETED).write(spec.path)
        return 0
    if not (spec.path / "failures" / f"rank{rank}.json").exists():
        write_failure(spec.path, rank, _command_failure(spec, rank, status), time.time())
    return status if status > 0 else 128 - status


def _command_failure(spec: LaunchSpec, rank: int, status: int) -> Failure:
    return failure_of_exit(status, Path(spec.log_path(rank)), rank)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
