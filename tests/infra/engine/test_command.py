"""Finding Pulumi's command, installing it, and running it so that it is stopped in order."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import threading
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pulumi.automation import PulumiCommand
from pulumi.automation.errors import CommandError

from burst.core.errors import Refused, Unreachable
from burst.infra.engine.command import (
    PINNED,
    Command,
    Found,
    archive_url,
    by_hand,
    find_command,
    install_command,
    missing,
)

_STUBBORN = """#!/bin/sh
[ "$1" = version ] && { echo v3.200.0; exit 0; }
trap 'n=$((n+1)); echo "interrupt $n"; [ "$n" = 2 ] && exit 3' INT
echo ready
while :; do read -t 0.05 _ < "$WAITS" || :; sleep 0.02; done
"""


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """A person who has no Pulumi at all."""
    empty = tmp_path / "empty"
    empty.mkdir()
    path = os.pathsep.join([str(empty), "/usr/bin", "/bin"])
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return {"PATH": path, "HOME": str(tmp_path)}


def put(root: Path, version: str = "v3.250.0") -> Path:
    command = root / "bin" / "pulumi"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho {version}\n")
    command.chmod(0o755)
    return command


def test_it_is_found_on_path_where_its_installer_puts_it_and_where_burst_does(
    nowhere: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    assert find_command(nowhere, home).command is None
    own = put(home / "pulumi" / "versions" / PINNED)
    found = find_command(nowhere, home).command
    assert found is not None
    assert found.command == str(own)
    theirs = put(tmp_path / ".pulumi")
    found = find_command(nowhere, home).command
    assert found is not None
    assert found.command == str(theirs)
    path = f"{put(tmp_path / 'on').parent}{os.pathsep}{nowhere['PATH']}"
    monkeypatch.setenv("PATH", path)
    found = find_command({**nowhere, "PATH": path}, home).command
    assert found is not None
    assert found.command == "pulumi"


def test_one_that_is_too_old_is_passed_over_for_one_that_is_not(
    nowhere: dict[str, str], tmp_path: Path
) -> None:
    put(tmp_path / ".pulumi", "v3.10.0")
    found = find_command(nowhere, tmp_path / "home")
    assert found.command is None
    assert "3.10.0" in found.too_old
    assert "too old" in missing(found).what
    put(tmp_path / "home" / "pulumi" / "versions" / PINNED)
    assert find_command(nowhere, tmp_path / "home").command is not None


def test_one_that_does_not_run_is_none(nowhere: dict[str, str], tmp_path: Path) -> None:
    command = put(tmp_path / ".pulumi")
    command.write_text("#!/bin/sh\nexit 4\n")
    assert find_command(nowhere, tmp_path / "home") == Found(None)
    command.chmod(0o644)
    assert find_command(nowhere, tmp_path / "home") == Found(None)


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (urllib.error.URLError("no route to host"), Unreachable, "no route"),
        (PermissionError(13, "Permission denied"), Unreachable, "Permission denied"),
        (
            subprocess.CalledProcessError(1, "install.sh", b"curl: not found"),
            Refused,
            "curl: not found",
        ),
    ],
)
def test_where_it_cannot_be_installed_it_is_said_what_to_type(
    error: Exception,
    kind: type[Exception],
    says: str,
    nowhere: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def fail(root: str, version: object) -> None:
        raise error

    monkeypatch.setattr(PulumiCommand, "_install_posix", fail)
    with pytest.raises(kind) as raised:
        install_command(tmp_path / "home")
    told: Any = raised.value
    assert says in told.why
    assert "curl -fO https://get.pulumi.com/releases/sdk/pulumi-v" in told.mend
    assert 'export PATH="$PWD/pulumi:$PATH"' in told.mend


def test_the_pinned_version_is_installed_in_the_home_and_once(
    nowhere: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def install(root: str, version: object) -> None:
        asked.append(str(version))
        put(Path(root), f"v{version}")

    monkeypatch.setattr(PulumiCommand, "_install_posix", install)
    first = install_command(tmp_path / "home")
    assert first.command.startswith(str(tmp_path / "home"))
    install_command(tmp_path / "home")
    assert asked == [PINNED]


def test_the_archive_is_that_of_the_system_and_the_processor() -> None:
    assert f"pulumi-v{PINNED}-darwin-arm64.tar.gz" in by_hand("Darwin", "arm64")
    assert f"pulumi-v{PINNED}-linux-x64.tar.gz" in by_hand("Linux", "x86_64")
    assert archive_url("windows", "x64").endswith(f"pulumi-v{PINNED}-windows-x64.zip")
    assert "zip" in by_hand("Windows", "AMD64")


def test_no_error_of_python_comes_of_a_command_that_is_not_there() -> None:
    error = missing(Found(None))
    assert isinstance(error, Refused)
    assert "PATH" in error.why


@pytest.fixture
def stubborn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Command]:
    """A command that ends at the second interrupt."""
    command = tmp_path / "stubborn" / "bin" / "pulumi"
    command.parent.mkdir(parents=True)
    command.write_text(_STUBBORN)
    command.chmod(0o755)
    monkeypatch.setenv("WAITS", os.devnull)
    return lambda: Command(str(tmp_path / "stubborn"))


def test_an_interrupt_reaches_it_once_each_and_its_words_are_read_to_the_end(
    stubborn: Callable[[], Command], tmp_path: Path
) -> None:
    command = stubborn()
    heard: list[str] = []
    ready, first = threading.Event(), threading.Event()

    def hear(line: str) -> None:
        heard.append(line)
        (ready if line == "ready" else first).set()

    def interrupt() -> None:
        assert ready.wait(30)
        command.interrupt()
        assert first.wait(30)
        command.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(CommandError):
        command.run(["up"], str(tmp_path), {}, on_output=hear)
    thread.join()
    assert [line for line in heard if line.startswith("interrupt")] == [
        "interrupt 1",
        "interrupt 2",
    ]
    assert command.interrupted


def test_a_ctrl_c_of_the_terminal_does_not_reach_it(
    stubborn: Callable[[], Command], tmp_path: Path
) -> None:
    """It is in a process group of its own; the terminal's signal goes to the caller's."""
    command, groups = stubborn(), list[int]()

    def hear(line: str) -> None:
        if line == "ready":
            process = command._running
            assert process is not None
            groups.append(os.getpgid(process.pid))
            command.interrupt()
        elif line == "interrupt 1":
            command.interrupt()

    with pytest.raises(CommandError):
        command.run(["up"], str(tmp_path), {}, on_output=hear)
    assert groups
    assert groups[0] != os.getpgid(0)
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def test_what_it_writes_is_read_whatever_bytes_it_has(
    nowhere: dict[str, str], tmp_path: Path
) -> None:
    command = put(tmp_path / ".pulumi")
    command.write_text(
        '#!/bin/sh\n[ "$1" = version ] && { echo v3.250.0; exit 0; }\nprintf "\\377 %s\\n" "$*"\n'
    )
    found = find_command(nowhere, tmp_path / "home").command
    assert found is not None
    result = found.run(["stack", "export"], str(tmp_path), {})
    assert result.stdout.endswith("--non-interactive stack export")
    assert io.StringIO(result.stderr).read() == ""
