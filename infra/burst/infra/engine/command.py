"""Pulumi's command: found, installed, and run so that Ctrl-C reaches it once and in order."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pulumi._version import version as sdk_version
from pulumi.automation import CommandResult, PulumiCommand
from pulumi.automation.errors import InvalidVersionError, create_command_error
from semver import VersionInfo

from burst.core.errors import BurstError, Refused, Unreachable

OLDEST = VersionInfo(3, 150, 0)
PINNED = str(sdk_version)
"""The version that goes with the library that is installed."""
_SITE = "https://get.pulumi.com"
_MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


class Command(PulumiCommand):
    """Pulumi's command in a process group of its own: a terminal's Ctrl-C is for burst, which
    tells Pulumi to stop in order."""

    def __init__(self, root: str | None = None) -> None:
        super().__init__(root, OLDEST)
        self._lock = threading.Lock()
        self._running: subprocess.Popen[str] | None = None
        self._interrupts = 0

    @property
    def interrupted(self) -> bool:
        return self._interrupts > 0

    def interrupt(self) -> None:
        """Tell Pulumi to stop: what is being made is finished and written down, and nothing more
        begun. A second time it stops where it is. Safe from a signal handler."""
        self._interrupts += 1
        running = self._running
        if running is not None:
            with suppress(ProcessLookupError):
                running.send_signal(signal.SIGINT)

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Callable[[str], Any] | None = None,
        on_error: Callable[[str], Any] | None = None,
    ) -> CommandResult:
        """As `PulumiCommand.run`.

        Raises:
            CommandError: Pulumi said no.
        """
        words = [] if "--non-interactive" in args else ["--non-interactive"]
        environ = {**os.environ, **additional_env, "PULUMI_AUTOMATION_API": "true"}
        environ["PULUMI_SKIP_UPDATE_CHECK"] = "true"
        if os.path.isabs(self.command):  # plugins lie beside it
            folder = os.path.dirname(self.command)
            environ["PATH"] = os.pathsep.join((folder, environ.get("PATH", os.defpath)))
        with subprocess.Popen(
            [self.command, *words, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environ,
            encoding="utf-8",
            errors="replace",
            process_group=0,
        ) as process:
            self._running = process
            try:
                out, err = _Reader(process.stdout, on_output), _Reader(process.stderr, on_error)
                texts = out.text(), err.text()
                process.wait()
            finally:
                self._running = None
        result = CommandResult(*texts, process.returncode)
        if result.code != 0:
            raise create_command_error(result)
        return result


class _Reader:
    """All that comes of a stream, line by line, in a thread of its own."""

    def __init__(self, stream: IO[str] | None, tell: Callable[[str], Any] | None) -> None:
        assert stream is not None
        self._stream, self._tell = stream, tell
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        self._thread.join()
        return "\n".join(self._lines)

    def _read(self) -> None:
        for line in self._stream:
            self._lines.append(line.rstrip())
            if self._tell is not None:
                self._tell(line.rstrip())


@dataclass(frozen=True)
class Found:
    """What there is of Pulumi's command."""

    command: Command | None
    too_old: str = ""
    """The version of one that cannot be used."""


def find_command(environ: Mapping[str, str], home: Path) -> Found:
    """Pulumi's command on PATH, where its installer puts it, or where burst has put it; the first
    that is new enough.

    Args:
        home: BURST_HOME.
    """
    too_old = ""
    for root in _roots(environ, home):
        try:
            return Found(Command(root))
        except InvalidVersionError as error:
            too_old = str(error)
        except (OSError, subprocess.CalledProcessError):
            continue
    return Found(None, too_old)


def install_command(home: Path) -> Command:
    """Download Pulumi's command in the pinned version; takes what is there already.

    Raises:
        Unreachable: it cannot be downloaded.
        Refused: its installer failed.
    """
    root = str(_own(home))
    try:
        PulumiCommand.install(root=root, version=sdk_version)
        return Command(root)
    except subprocess.CalledProcessError as error:
        said = (error.output or b"").decode(errors="replace").strip()
        what = "Pulumi's installer failed"
        raise Refused(what, why=said or str(error), mend=by_hand()) from error
    except InvalidVersionError as error:
        raise Refused("the wrong Pulumi came", why=str(error), mend=by_hand()) from error
    except OSError as error:  # urllib's own are among them
        what = f"Pulumi {PINNED} cannot be downloaded"
        raise Unreachable(what, why=str(error), mend=by_hand()) from error


def missing(found: Found) -> BurstError:
    """There is no command that can be used, and it was not to be installed."""
    if found.too_old:
        what = "the `pulumi` command that is here is too old"
        return Refused(what, why=found.too_old, mend=by_hand())
    why = "it is not on PATH, not in ~/.pulumi/bin, and burst has not installed it"
    return Refused("there is no `pulumi` command", why=why, mend=by_hand())


def by_hand(system: str | None = None, machine: str | None = None) -> str:
    """What a person can do about it, word for word.

    Args:
        system: as `platform.system()` names it; by default this one, and so of `machine`.
    """
    kind = (system or platform.system()).lower()
    processor = _MACHINES.get((machine or platform.machine()).lower(), "x64")
    if kind == "windows":
        return f"download {archive_url(kind, processor)}, unpack it, and put its bin on PATH"
    archive = f"pulumi-v{PINNED}-{kind}-{processor}.tar.gz"
    return (
        f"where the network allows it: curl -fO {archive_url(kind, processor)}\n"
        f'then: tar -xzf {archive} && export PATH="$PWD/pulumi:$PATH"\n'
        "and type the command again"
    )


def archive_url(system: str, processor: str) -> str:
    """Where the pinned version lies for a system (`linux`) and processor (`x64`)."""
    ending = "zip" if system == "windows" else "tar.gz"
    return f"{_SITE}/releases/sdk/pulumi-v{PINNED}-{system}-{processor}.{ending}"


def _roots(environ: Mapping[str, str], home: Path) -> Iterator[str | None]:
    if shutil.which("pulumi", path=environ.get("PATH")):
        yield None
    person = Path(environ.get("HOME") or "~").expanduser()
    for root in (person / ".pulumi", _own(home)):
        if (root / "bin" / "pulumi").exists():
            yield str(root)


def _own(home: Path) -> Path:
    return home / "pulumi" / "versions" / PINNED
