"""Processes below a guard: whoever dies, nothing is left and nobody hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from burst.core.launch import ALLOCATION_VARIABLE
from burst.runner.agent.ends.tails import tail_of
from burst.runner.agent.running.process import Process
from burst.runner.agent.running.sweep import marked, sweep
from tests.agent.conftest import eventually

STUBBORN = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "os.setsid()\n"
    "open(sys.argv[1], 'a').write(f'{os.getpid()}\\n')\n"
    "time.sleep(600)\n"
)
"""Ignores SIGTERM, leaves its session, and holds on to stdout."""


def _start(folder: Path, *command: str, **environ: str) -> Process:
    return Process(command, environ={**os.environ, **environ}, folder=folder, log=folder / "log")


def _shell(folder: Path, script: str, **environ: str) -> Process:
    return _start(folder, "/bin/sh", "-c", script, **environ)


def _family(folder: Path) -> str:
    """A shell script that leaves a stubborn child and an orphaned stubborn grandchild."""
    python = f'{sys.executable} -c "{STUBBORN}" {folder / "pids"}'
    return f"{python} & ({python} &) ; "


def _pids(folder: Path, count: int) -> list[int]:
    def read() -> list[int]:
        path = folder / "pids"
        found = path.read_text().split() if path.exists() else []
        return [int(pid) for pid in found] if len(found) == count else []

    pids: list[int] = eventually(read)
    return pids


def _alive(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
        except psutil.NoSuchProcess:
            continue
    return found


@pytest.fixture(autouse=True)
def _nothing_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    path = tmp_path / "pids"
    for pid in _alive([int(pid) for pid in path.read_text().split()] if path.exists() else []):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 65", 65), ("kill -SEGV $$", -signal.SIGSEGV)]
)
def test_the_status_is_the_programs_own(tmp_path: Path, script: str, status: int) -> None:
    assert _shell(tmp_path, script).wait() == status


def test_output_goes_to_the_log_and_stdin_is_empty(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")
    assert _shell(tmp_path, "cat; echo out; echo err >&2").wait() == 0
    assert (tmp_path / "log").read_text() == "before\nout\nerr\n"


def test_a_program_that_is_not_there_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="/no/such/python: No such file"):
        _start(tmp_path, "/no/such/python", "-c", "1").wait()


def test_a_child_that_holds_stdout_open_neither_hangs_the_end_nor_outlives_it(
    tmp_path: Path,
) -> None:
    process = _shell(tmp_path, _family(tmp_path) + "while ! [ -s pids ]; do :; done; exit 3")
    assert process.wait() == 3
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert pids
    assert _alive(pids) == []


def test_terminate_reaches_the_whole_group_and_lets_it_finish(tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    process = _shell(tmp_path, script)
    eventually(lambda: "ready" in tail_of(tmp_path / "log"))
    process.terminate()
    assert process.wait() == 7
    assert "bye" in (tmp_path / "log").read_text()


def test_kill_ends_all_below_the_guard_whatever_they_ignore(tmp_path: Path) -> None:
    process = _shell(tmp_path, "trap '' TERM; " + _family(tmp_path) + "sleep 600")
    pids = _pids(tmp_path, 2)
    process.kill()
    process.kill()
    assert process.wait() is None
    assert _alive(pids) == []


def test_killing_the_guard_kills_the_program_and_a_sweep_finds_the_rest(tmp_path: Path) -> None:
    process = _shell(tmp_path, _family(tmp_path) + "sleep 600", **{ALLOCATION_VARIABLE: "alloc-q"})
    pids = _pids(tmp_path, 2)
    program = [child.pid for child in psutil.Process(process.pid).children()]
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() is None
    eventually(lambda: not set(_alive(program)) - set(pids))
    assert sweep(("alloc-q",)) >= 1
    assert _alive(pids) == []
    assert list(marked(("alloc-q",))) == []


def test_a_stopped_guard_is_abandoned(tmp_path: Path) -> None:
    process = _shell(tmp_path, "sleep 600")
    os.kill(process.pid, signal.SIGSTOP)
    process.kill()
    process.abandon()
    assert process.wait() is None


def test_when_the_agent_is_killed_everything_below_the_guard_dies(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from burst.runner.agent.running.process import Process\n"
        "folder = Path(sys.argv[1])\n"
        "Process(['/bin/sh', '-c', sys.argv[2]], environ={'PATH': '/bin:/usr/bin'},\n"
        "        folder=folder, log=folder / 'log')\n"
        "time.sleep(600)\n"
    )
    script = "trap '' TERM; " + _family(tmp_path) + "sleep 600"
    agent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path), script])
    pids = _pids(tmp_path, 2)
    below = [child.pid for child in psutil.Process(agent.pid).children(recursive=True)]
    agent.kill()
    agent.wait()
    eventually(lambda: not _alive(pids + below))


def test_a_sweep_takes_only_what_is_marked(tmp_path: Path) -> None:
    ours = _shell(tmp_path, "sleep 600", **{ALLOCATION_VARIABLE: "alloc-a"})
    others = _shell(tmp_path, "sleep 600", **{ALLOCATION_VARIABLE: "alloc-b"})
    eventually(lambda: len(list(marked(("alloc-a",)))) >= 2)
    assert sweep(("alloc-a",)) >= 2
    assert ours.wait() is None
    assert psutil.pid_exists(others.pid)
    others.kill()
    others.wait()
    assert sweep(()) == 0


def test_waiting_in_one_thread_and_killing_in_another_ends_both(tmp_path: Path) -> None:
    process = _shell(tmp_path, "sleep 600")
    waiter = threading.Thread(target=process.wait)
    waiter.start()
    begun = time.monotonic()
    process.kill()
    waiter.join(10)
    assert not waiter.is_alive()
    assert time.monotonic() - begun < 5
