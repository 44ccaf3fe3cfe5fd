"""The servers of a rehearsal on loopback: EC2 by burst's model, all else by ministack."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from burst.core.errors import BurstError
from burst.core.testing.ministack import free_url, ministack_environ, wait_for_ministack
from burst.runner.agent.running.process import Process
from burst.runner.rehearsal.ec2.marks import sweep
from burst.runner.rehearsal.extra import check_extra

REGION = "us-east-1"
_PATIENCE_S = 120.0
_PAUSE_S = 0.05
_PERSON = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": REGION,
}
_OF_THE_MODEL = (
    "AWS_ENDPOINT_URL_EC2",
    "AWS_ENDPOINT_URL_SERVICE_QUOTAS",
    "AWS_ENDPOINT_URL_SSM",  # ministack has not the parameters of images
)


@dataclass(frozen=True)
class Servers:
    """Where they are, for clients of AWS's and for the control calls."""

    environ: Mapping[str, str]
    """What a client needs in its environment, and nothing else."""
    ec2: str
    """URL of the model, for `Ec2Control`."""
    aws: str
    """URL of all else."""
    folder: Path
    """Logs, and the disks of machines below `ec2/machines`."""


@contextmanager
def serve(folder: Path, *, boot: float = 1.0, executions: int = 1000) -> Iterator[Servers]:
    """Both servers; they end with the block, and so does every machine, whatever ends it: kill -9
    of this process too.

    Args:
        folder: made if it is not there; one rehearsal at a time may use it.
        boot: seconds from a machine's launch until it runs.
        executions: how many functions of the account may run at once; a new account has 10.

    Raises:
        BurstError: something that they need is not installed, or one does not come up.
    """
    check_extra()
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    started: list[_Running] = []
    try:
        yield _start(folder, boot, executions, started)
    finally:
        for server in reversed(started):  # machines before what they write to
            server.end()
        sweep(str(folder / "ec2"))


def _start(folder: Path, boot: float, executions: int, started: list[_Running]) -> Servers:
    aws, ec2 = free_url(), free_url()
    environ = {**_PERSON, "AWS_ENDPOINT_URL": aws, **{name: ec2 for name in _OF_THE_MODEL}}
    log, ec2_log = folder / "ministack.log", folder / "ec2.log"
    limits = {"LAMBDA_ACCOUNT_CONCURRENCY": str(executions)}
    theirs = ministack_environ(aws, {**_outside(), **environ, **limits, **_own(folder)})
    module = "burst.runner.rehearsal"
    ministack = _Running([sys.executable, "-m", f"{module}.aws"], theirs, folder, log)
    started.append(ministack)
    place = folder / "ec2"
    (place / "url").unlink(missing_ok=True)
    program = (sys.executable, "-m", f"{module}.ec2", "--folder", str(place))
    port = ("--port", str(urlsplit(ec2).port), "--events", aws)
    machines = ("--boot", str(boot), "--machine-environ", f"AWS_ENDPOINT_URL={aws}")
    model = _Running([*program, *port, *machines], os.environ, folder, ec2_log)
    started.append(model)
    try:
        wait_for_ministack(aws, ministack.is_alive, log)
    except RuntimeError as error:
        raise _not_up("ministack", log) from error
    _wait_for_file(place / "url", model.is_alive, ec2_log)
    return Servers(environ, ec2, aws, folder)


def _outside() -> dict[str, str]:
    """This process's environment without what speaks of somebody's own account and state:
    functions have what ministack has."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "BURST_"))
    }


def _own(folder: Path) -> dict[str, str]:
    """Where ministack leaves files that name its process, and functions their state."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    return {"TMPDIR": str(temporary), "BURST_HOME": str(folder / "function")}


class _Running:
    """A server below a guard, so that it and all that it has started end with this process."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], folder: Path, log: Path
    ) -> None:
        self._process = Process(command, environ=environ, folder=folder, log=log)
        self._thread = threading.Thread(target=self._process.wait, daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> None:
        """Kill it; returns when nothing of it is left."""
        self._process.kill()
        self._thread.join()


def _wait_for_file(path: Path, alive: Callable[[], bool], log: Path) -> str:
    """What the file holds once it is there."""
    deadline = time.monotonic() + _PATIENCE_S
    while not path.exists():
        if not alive() or time.monotonic() > deadline:
            raise _not_up("the model of EC2", log)
        time.sleep(_PAUSE_S)
    return path.read_text()


def _not_up(what: str, log: Path) -> BurstError:
    end = log.read_text(errors="replace")[-2000:] if log.exists() else ""
    return BurstError(f"{what} did not come up", why=end.strip(), mend=f"its log is {log}")
