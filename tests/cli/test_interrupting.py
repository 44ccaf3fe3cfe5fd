"""Ctrl-C, wherever it comes in a `burst run` and however often: it is said what became of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from burst.cli import driver, handing_over, submitting, watching
from burst.cli.driving import is_driven
from burst.cli.interrupting import interruptible
from burst.core.errors import Unreachable
from burst.core.model import Experiment
from burst.core.store.port import Store
from burst.runner.loop import Runner
from tests.cli.conftest import Burst

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """A suite that was started in the background has Ctrl-C ignored."""
    previous = {each: signal.getsignal(each) for each in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in previous.items():
        signal.signal(number, handler)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was printed before a runner was started, of each that was; Ctrl-C comes meanwhile."""
    runners: list[str] = []

    def start(*given: Any) -> int:
        for number in SIGNALS:
            signal.raise_signal(number)
        runners.append("started")
        return 1

    monkeypatch.setattr(handing_over, "start_runner", start)
    monkeypatch.setattr(driver, "Driver", lambda workspace: nullcontext())
    return runners


@pytest.fixture
def folder(burst: Burst, tmp_path: Path) -> Path:
    burst("init", str(tmp_path / "new"))
    return tmp_path / "new"


def ctrl_c(*given: Any, **named: Any) -> Any:
    signal.raise_signal(signal.SIGINT)


def before_the_commit(commit: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *writes: (ctrl_c(), commit(*writes))[1]


def after_the_commit(commit: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *writes: (commit(*writes), ctrl_c())[0]


@pytest.mark.parametrize("first", SIGNALS)
@pytest.mark.parametrize("second", SIGNALS)
def test_the_first_interrupts_and_those_after_it_do_nothing(
    first: signal.Signals, second: signal.Signals
) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    done = False
    with interruptible():
        try:
            signal.raise_signal(first)
        except KeyboardInterrupt:
            signal.raise_signal(second)
            signal.raise_signal(first)
            done = True
    assert done
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_what_was_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    with interruptible():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_processes_that_are_started_meanwhile_can_be_interrupted() -> None:
    program = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    with interruptible():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert said.stdout == b"False\n"


def test_while_it_is_read_nothing_is_submitted(
    burst: Burst, folder: Path, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitting, "prepare", ctrl_c)
    said = burst("run", str(folder / "exp.yaml"), status=130).stderr
    assert "Interrupted: nothing was submitted." in said
    assert (burst.store.children(Experiment, ""), started) == ([], [])


@pytest.mark.parametrize("detach", [(), ("--detach",)])
@pytest.mark.parametrize("when", [before_the_commit, after_the_commit])
def test_while_it_is_submitted_it_is_said_whether_it_was(
    burst: Burst,
    folder: Path,
    started: list[str],
    monkeypatch: pytest.MonkeyPatch,
    when: Callable[[Any], Any],
    detach: tuple[str, ...],
) -> None:
    monkeypatch.setattr(burst.store, "commit", when(burst.store.commit))
    said = burst("run", str(folder / "exp.yaml"), *detach, status=130).stderr
    there = burst.store.children(Experiment, "")
    if when is before_the_commit:
        assert "Interrupted: nothing was submitted." in said
        assert (there, started) == ([], [])
    else:
        assert f"{there[0].id} goes on in the background" in said
        assert started == ["started"]


def test_a_store_that_is_gone_then_leaves_it_open_and_it_says_so(
    burst: Burst, folder: Path, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*given: Any, **named: Any) -> Any:
        raise Unreachable("the store did not answer")

    monkeypatch.setattr(burst.store, "commit", before_the_commit(burst.store.commit))
    monkeypatch.setattr(burst.store, "events", gone)
    said = burst("run", str(folder / "exp.yaml"), status=6).stderr
    assert "cannot be told whether it was" in said
    assert "the store did not answer" in said


def test_ctrl_c_again_and_again_while_it_is_watched_still_starts_a_runner(
    burst: Burst, folder: Path, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "watch", ctrl_c)
    said = burst("run", str(folder / "exp.yaml"), status=130).stderr
    assert "goes on in the background" in said
    assert started == ["started"]


def test_where_no_runner_can_be_started_it_is_not_said_to_go_on(
    burst: Burst, folder: Path, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: Any) -> int:
        raise Unreachable("the home cannot be written")

    monkeypatch.setattr(watching, "watch", ctrl_c)
    monkeypatch.setattr(handing_over, "start_runner", fails)
    said = burst("run", str(folder / "exp.yaml"), status=6).stderr
    assert "goes on" not in said


def test_what_is_over_is_not_said_to_go_on(
    burst: Burst, folder: Path, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def over(*given: Any, **named: Any) -> None:
        store: Store = burst.store
        (found,) = store.live(Experiment)
        burst("kill", found.id)
        Runner(burst.session.workspace, burst.session.clock).step()
        ctrl_c()

    monkeypatch.setattr(watching, "watch", over)
    said = burst("run", str(folder / "exp.yaml"), status=130).stderr
    assert "is over" in said
    assert "goes on" not in said


def test_who_is_interrupted_before_it_drives_is_no_driver(
    burst: Burst, burst_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = driver.Driver(burst.session.workspace)
    monkeypatch.setattr(made._thread, "start", ctrl_c)
    with pytest.raises(KeyboardInterrupt), made:
        raise AssertionError("it did not begin")
    assert not is_driven(burst_home)


@pytest.mark.parametrize("module", ["click", "burst.cli.commands.run", "pydantic"])
def test_while_modules_are_imported_it_says_in_words_that_nothing_was_done(
    module: str, burst_home: Path, tmp_path: Path
) -> None:
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv[1:] = ['run', 'exp.yaml']\n"
        "from burst.cli.main import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "BURST_HOME": str(burst_home)},
        check=False,
    )
    assert done.returncode == 130, done.stderr
    said = done.stderr.strip()
    assert said in ("Interrupted before anything was done.", "Interrupted: nothing was submitted.")


@pytest.mark.parametrize(
    "again",
    [
        "import atexit; atexit.register(signal.raise_signal, signal.SIGINT)",
        "import click; echo = click.echo\n"
        "click.echo = lambda *a, **k: (echo(*a, **k), signal.raise_signal(signal.SIGINT))",
    ],
)
def test_ctrl_c_while_it_leaves_prints_no_traceback(
    again: str, burst_home: Path, tmp_path: Path
) -> None:
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import burst.cli.commands.ls as command\n"
        "command.ls.callback = lambda *a, **k: signal.raise_signal(signal.SIGINT)\n"
        f"{again}\n"
        "sys.argv[1:] = ['ls']\n"
        "from burst.cli.main import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "BURST_HOME": str(burst_home)},
        check=False,
    )
    assert done.returncode in (130, -signal.SIGINT), done.stderr
    assert done.stderr.strip() == "Interrupted."
