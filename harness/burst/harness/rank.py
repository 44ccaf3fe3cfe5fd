"""One rank of a trial, or the command that a trial runs: `python -m burst.harness.rank`.

What it leaves behind for the agent: its output in `logs/rank<N>.log`, its error in
`failures/rank<N>.json`, from rank 0 an `outcome.json`, and an exit status.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from burst.core.errors import UsageError
from burst.core.launch import COMMAND_VARIABLE, LaunchSpec, names_class, read_launch
from burst.harness.errors import TrialError
from burst.harness.leaving import note, status_of
from burst.harness.loading import loading
from burst.harness.process import Terminated, die_with_parent, write_output_to
from burst.harness.traces import format_user_traceback

_SITE = Path(__file__).parent / "transformers" / "site"
"""Attaches burst to every Python that a command starts. A trial class needs no such thing."""


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
        if not names_class(spec.config["entrypoint"]):
            _become_command(spec)
        _run_trial(spec, rank)
    except BaseException as error:
        status, kind = status_of(error)
        if status:
            sys.stderr.write(format_user_traceback(error))
            note(spec, rank, error, status, kind)
        return status
    return 0


def _run_trial(spec: LaunchSpec, rank: int) -> None:
    terminated = Terminated(lambda: others_failed(spec, rank))
    sys.path.insert(0, str(spec.path / "code"))
    with loading():
        from burst.harness.trial.run import run_trial

    try:
        run_trial(spec, lambda: terminated.asked)
    except SystemExit as error:
        if error.code:
            raise
        raise TrialError(
            "the trial left with status 0 before it was trained to its end",
            why="something in its code called sys.exit",
            mend="to end early, call context.set_stop_requested(True)",
        ) from error


def others_failed(spec: LaunchSpec, rank: int) -> bool:
    """Whether another rank of the gang has left an error."""
    mine = f"rank{rank}.json"
    return any(path.name != mine for path in (spec.path / "failures").glob("rank*.json"))


def _become_command(spec: LaunchSpec) -> None:
    """Become the experiment's command, which keeps this process's number, output and parent."""
    from burst.harness.interpolate import command_of
    from burst.harness.launchers import explain, without_launcher

    words = command_of(spec.config["entrypoint"], spec.hparams)
    direct = without_launcher(words, spec.nodes * spec.ranks_per_node)
    if direct is not None:
        explain(direct)
        words = direct.words
        os.environ.update(direct.environment)
    os.environ[COMMAND_VARIABLE] = str(os.getpid())
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(_SITE), os.environ.get("PYTHONPATH", "")))
    )
    try:
        os.execvp(words[0], words)
    except OSError as error:
        raise UsageError(
            f"the command {words[0]!r} cannot be started",
            why=str(error),
            mend="the first word of `entrypoint` is a program on the PATH or in the code folder",
        ) from None


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
