"""What is said of how a script ended, and the exit that an agent makes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from burst.core.launch import LaunchSpec, Outcome, failures_left, mark_connected
from burst.core.model import Drain, DrainCause, Exit, ExitKind
from burst.runner.agent.ends.classify import Ended, classify

PREAMBLE = """
import os, signal, sys
os.environ.setdefault("BURST_COMMAND", str(os.getpid()))
from burst.core.launch import read_launch
from burst.harness.session import Session
from burst.harness.transformers.script.ending import Ending

ending = Ending(Session(), read_launch())
ending.install()
ending.begun()
"""
PAUSE = Drain(cause=DrainCause.PAUSE, at=0.0)


@dataclass
class Left:
    status: int
    outcome: Outcome | None
    exit: Exit
    said: str


def spec_in(folder: Path) -> LaunchSpec:
    made = LaunchSpec(
        folder=str(folder), store_url="", blobs_url="", checkpoints_url="", experiment="exp-1",
        trial="exp-1.t0000", allocation="alloc-1", node="node-1", attempt=1, token=1, hparams={},
        seed=1, config={},
    )  # fmt: skip
    made.write()
    mark_connected(folder)
    return made


def run(folder: Path, script: str, drain: Drain | None = None, *, below: bool = False) -> Left:
    """Run a script in which a training has begun, and judge what it left.

    Args:
        below: whether it is one that the command has started.
    """
    spec = spec_in(folder)
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + script],
        env={**os.environ, "BURST_LAUNCH": str(folder / "spec.json")}
        | ({"BURST_COMMAND": "1"} if below else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    left = [failure for _, failure in failures_left(spec.path).values()]
    outcome = Outcome.read(spec.path)
    ended = Ended(
        done.returncode, outcome, left[0] if left else None, drain, log=done.stderr, connected=True
    )
    return Left(done.returncode, outcome, classify(ended), done.stderr)


def test_a_script_that_trained_and_ends_has_completed(tmp_path: Path) -> None:
    left = run(tmp_path, "ending.completed()\nassert not ending.is_over")
    assert (left.status, left.exit) == (0, Exit(kind=ExitKind.COMPLETED))


def test_one_that_stopped_itself_says_why(tmp_path: Path) -> None:
    left = run(tmp_path, "ending.stopped('eval_loss has not improved in 3 evaluations')")
    said = "eval_loss has not improved in 3 evaluations"
    assert left.exit == Exit(kind=ExitKind.STOPPED, text=said, code="early_stopping")


def test_one_that_fails_after_training_has_crashed_with_its_own_traceback(tmp_path: Path) -> None:
    left = run(tmp_path, "ending.completed()\nraise ValueError('no such metric')")
    assert (left.status, left.outcome, left.exit.kind) == (1, None, ExitKind.CRASHED)
    assert left.exit.failure is not None
    assert (left.exit.failure.kind, left.exit.failure.message) == ("ValueError", "no such metric")
    assert left.exit.failure.traceback.startswith("Traceback")
    assert left.said.count("ValueError: no such metric") == 1


def test_a_hook_of_the_scripts_own_hides_no_failure(tmp_path: Path) -> None:
    script = "sys.excepthook = lambda *a: print('mine', file=sys.stderr)\nraise ValueError('no')"
    left = run(tmp_path, script)
    assert left.said == "mine\n"
    assert left.exit.failure is not None
    assert left.exit.failure.kind == "ValueError"


@pytest.mark.parametrize(
    ("call", "kind"), [("sys.exit(3)", "exit 3"), ("sys.exit('it is too bad')", "exit 1")]
)
def test_a_status_of_failure_after_training_is_a_failure(
    tmp_path: Path, call: str, kind: str
) -> None:
    left = run(tmp_path, f"ending.completed()\n{call}")
    assert left.exit.kind is ExitKind.CRASHED
    assert left.exit.failure is not None
    assert left.exit.failure.kind == kind


@pytest.mark.parametrize("call", ["sys.exit(0)", "sys.exit(3)", "pass"])
def test_one_that_leaves_in_the_middle_of_training_has_not_completed(
    tmp_path: Path, call: str
) -> None:
    left = run(tmp_path, call)
    assert left.exit.kind is ExitKind.CRASHED
    assert left.exit.failure is not None
    assert left.exit.failure.message.startswith("the script ended before its training did")
    assert "should_training_stop" in left.said


def test_a_process_that_leaves_without_a_word_is_judged_by_its_status(tmp_path: Path) -> None:
    assert run(tmp_path / "a", "os._exit(4)").exit.kind is ExitKind.CRASHED
    asked = run(tmp_path / "b", "os._exit(0)", PAUSE).exit
    assert (asked.kind, asked.durable) == (ExitKind.DRAINED, False)


def test_one_that_is_killed_or_interrupted_has_crashed(tmp_path: Path) -> None:
    killed = run(tmp_path / "a", "os.kill(os.getpid(), signal.SIGKILL)").exit
    interrupted = run(tmp_path / "b", "raise KeyboardInterrupt").exit
    assert killed.failure is not None
    assert interrupted.failure is not None
    assert (killed.kind, killed.failure.kind) == (ExitKind.CRASHED, "SIGKILL")
    assert (interrupted.kind, interrupted.failure.kind) == (ExitKind.CRASHED, "KeyboardInterrupt")


@pytest.mark.parametrize(
    "after",
    [
        "ending.leave()",
        "try:\n    ending.leave()\nexcept BaseException:\n    pass\nprint('goes on')",
        "ending.begun()\nsys.exit(3)",
        "ending.completed()\nraise ValueError('there is no result')",
        "os._exit(9)",
        "from burst.harness.leaving import leave_badly\n"
        "leave_badly(None, read_launch(), SystemExit(75))",
        "import burst.harness.core_api as api\n"
        "api.leave_well(Session(), read_launch(), api.Outcome(kind=api.ExitKind.COMPLETED))",
        f"os.kill(os.getpid(), {int(signal.SIGKILL)})",
    ],
)
def test_one_that_was_asked_to_leave_has_drained_whatever_it_does_then(
    tmp_path: Path, after: str
) -> None:
    left = run(tmp_path, f"ending.drained(durable=True)\n{after}", PAUSE)
    assert left.exit == Exit(kind=ExitKind.DRAINED)


def test_leaving_stops_a_chain_of_commands_but_is_no_failure_of_the_command_itself(
    tmp_path: Path,
) -> None:
    script = "ending.drained(True)\nending.leave()"
    below = run(tmp_path / "a", script, PAUSE, below=True)
    itself = run(tmp_path / "b", script, PAUSE)
    assert (below.status, itself.status) == (75, 0)
    assert ("no failure of the trial" in below.said, itself.said) == (True, "")


def test_a_second_program_of_a_command_speaks_for_both(tmp_path: Path) -> None:
    assert run(tmp_path, "ending.completed()").exit.kind is ExitKind.COMPLETED
    assert run(tmp_path, "os.kill(os.getpid(), 9)").exit.kind is ExitKind.CRASHED


def test_a_second_program_leaves_at_once_where_the_first_was_asked_to(tmp_path: Path) -> None:
    run(tmp_path, "ending.drained(durable=True)", PAUSE)
    second = run(tmp_path, "print('trains', file=sys.stderr)", PAUSE, below=True)
    assert second.status == 75
    assert "trains" not in second.said
    assert second.exit == Exit(kind=ExitKind.DRAINED)


def test_what_one_program_of_several_said_does_not_stand_where_another_was_killed(
    tmp_path: Path,
) -> None:
    run(tmp_path, "ending.completed()", below=True)
    said = Outcome.read(tmp_path)
    assert classify(Ended(status=-signal.SIGKILL, outcome=said)).kind is ExitKind.CRASHED
    assert classify(Ended(status=0, outcome=said)).kind is ExitKind.COMPLETED


def test_a_fork_that_leaves_says_nothing(tmp_path: Path) -> None:
    script = """
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
assert not (read_launch().path / "outcome.json").exists()
ending.completed()
"""
    assert run(tmp_path, script).exit == Exit(kind=ExitKind.COMPLETED)


def test_threads_and_executors_can_still_be_used_for_the_last_word(tmp_path: Path) -> None:
    script = """
from concurrent.futures import ThreadPoolExecutor
import threading

class Closing(Session):
    def close(self):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(print, "by an executor", file=sys.stderr).result()
        thread = threading.Thread(target=print, args=("by a thread",), kwargs={"file": sys.stderr})
        thread.start()
        thread.join()

ending._session = Closing()
ending.completed()
"""
    left = run(tmp_path, script)
    assert left.said == "by an executor\nby a thread\n"
    assert left.exit == Exit(kind=ExitKind.COMPLETED)


def test_last_metrics_that_cannot_be_stored_are_no_fault_of_the_script(tmp_path: Path) -> None:
    script = """
from burst.core.errors import Unreachable

class Cut(Session):
    def close(self):
        raise Unreachable("the store does not answer")

ending._session = Cut()
ending.completed()
"""
    left = run(tmp_path, script)
    assert left.exit.kind is ExitKind.INFRASTRUCTURE
    assert left.exit.failure is not None
    assert left.exit.failure.message == "the store does not answer"
