from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from burst.cli import root, trouble
from burst.cli.lazy import LazyGroup
from burst.core.errors import BurstError, ConfigError
from tests.cli.conftest import Burst

HEAVY = {"pydantic", "torch", "boto3", "rich", "yaml", "fsspec", "psutil", "sqlite3"}


def python(program: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
        check=False,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_the_help_imports_nothing_heavy(arguments: list[str]) -> None:
    done = python(
        f"import sys; sys.argv = ['burst', *{arguments!r}]\n"
        "from burst.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    )
    assert done.stderr.splitlines()[-1] == "[]"


def test_completing_a_command_imports_nothing_heavy() -> None:
    done = python(
        "import sys; sys.argv = ['burst']\n"
        "from burst.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)",
        _BURST_COMPLETE="bash_complete",
        COMP_WORDS="burst l",
        COMP_CWORD="1",
    )
    assert done.stdout.splitlines() == ["plain,ls", "plain,logs"]
    assert done.stderr.splitlines() == ["[]"]


def test_every_entry_is_a_command_with_the_help_it_promises() -> None:
    group = root.cli
    assert isinstance(group, LazyGroup)
    context = click.Context(group)
    for name, entry in group.entries.items():
        command = group.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.get_short_help_str(200) == entry.help


def test_every_command_explains_itself() -> None:
    def walk(command: click.Command, path: str) -> None:
        context = click.Context(command)
        assert command.help, path
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                walk(below, f"{path} {name}")
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{path} {parameter.name}"

    walk(root.cli, "burst")


def test_a_mistyped_command_names_the_nearest() -> None:
    result = CliRunner().invoke(root.cli, ["logz"])
    assert result.exit_code == 2
    assert "Did you mean logs?" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        ("checkpoint", "show", "a\udcff"),
        ("show", "a\udcff"),
        ("logs", "\udcff"),
        ("run", "--from", "a\udcff"),
        ("run", "--set=name=\udcff"),
        ("a\udcff",),
    ],
)
def test_an_argument_that_is_not_utf_8_is_a_mistake_of_the_call(
    burst: Burst, words: tuple[str, ...]
) -> None:
    said = burst(*words, status=2).stderr
    assert "is not UTF-8" in said
    assert "\\xff" in said


def test_an_error_says_what_why_and_mend_on_stderr() -> None:
    error = BurstError("pool 'spot' is full", why="2 of 2\nslots", mend="wait")
    assert trouble.render(error) == (
        "Error: pool 'spot' is full\n  Why:  2 of 2\n        slots\n  Mend: wait"
    )
    assert "\x1b[" in trouble.render(error, colour=True)


def test_the_exit_status_is_the_errors_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert trouble.report(ConfigError("exp.yaml:3:4: no"), {}) == 3
    assert capsys.readouterr().err == "Error: exp.yaml:3:4: no\n"


def test_what_nobody_foresaw_is_short_and_its_traceback_is_kept(
    burst_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {"BURST_HOME": str(burst_home)}
    with pytest.raises(ZeroDivisionError) as caught:
        _fail()
    assert trouble.report(caught.value, environ) == 1
    shown = capsys.readouterr().err
    (kept,) = (burst_home / "log").iterdir()
    assert "ZeroDivisionError: division by zero" in shown
    assert str(kept) in shown
    assert "Traceback" not in shown
    assert "in _fail" in kept.read_text()


def _fail() -> None:
    raise ZeroDivisionError("division by zero")


def test_debugging_shows_the_traceback(
    burst_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {"BURST_HOME": str(burst_home), "BURST_DEBUG": "1"}
    trouble.report(ZeroDivisionError("no"), environ)
    assert "ZeroDivisionError: no\nError:" in capsys.readouterr().err


def test_a_home_that_cannot_be_written_still_gets_its_error_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "file"
    home.write_text("not a folder")
    trouble.report(ZeroDivisionError("no"), {"BURST_HOME": str(home)})
    assert "ZeroDivisionError: no\nError:" in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_error(filled: Burst, burst_home: Path) -> None:
    command = f"{sys.executable} -m burst.cli ls --json; echo status $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | true"],
        capture_output=True,
        text=True,
        env={**os.environ, "BURST_HOME": str(burst_home)},
        check=False,
    )
    assert done.stderr == "status 0\n"


def test_no_colour_is_asked_for_and_given(filled: Burst) -> None:
    assert "\x1b[" not in filled("ls").stdout
    assert "\x1b[" in filled("ls", FORCE_COLOR="1").stdout
    assert "\x1b[" not in filled("ls", FORCE_COLOR="1", NO_COLOR="1").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_completion_for(shell: str, burst: Burst) -> None:
    assert "_BURST_COMPLETE" in burst("completion", shell).stdout
