"""The servers of a rehearsal on loopback: DynamoDB and S3 by ministack, EC2 by burst's model."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from burst.core.errors import BurstError
from burst.core.testing.ministack import (
    find_ministack,
    free_url,
    ministack_environ,
    wait_for_ministack,
)
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
def serve(folder: Path, *, boot: float = 1.0) -> Iterator[Servers]:
    """Both servers; they end with the block, and so does every machine, whatever ends it: kill -9
    of this process too.

    Args:
        folder: made if it is not there; one rehearsal at a time may use it.
        boot: seconds from a machine's launch until it runs.

    Raises:
        BurstError: something that they need is not installed, or one does not come up.
    """
    check_extra()
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    started: list[_Running] = []
    try:
        yield _start(folder, boot, started)
    finally:
        for server in reversed(started):  # machines before what they write to
            server.end()
        sweep(str(folder / "ec2"))


def _start(folder: Path, boot: float, started: list[_Running]) -> Servers:
    aws, log = free_url(), folder / "ministack.log"
    own = folder / "tmp"  # where it leaves files that name its process
    own.mkdir(exist_ok=True)
    theirs = {**os.environ, "TMPDIR": str(own)}
    ministack = _Running([find_ministack()], ministack_environ(aws, theirs), folder, log)
    started.append(ministack)
    place = folder / "ec2"
    (place / "url").unlink(missing_ok=True)
    program = (sys.executable, "-m", "burst.runner.rehearsal.ec2", "--folder", str(place))
    machines = ("--boot", str(boot), "--machine-environ", f"AWS_ENDPOINT_URL={aws}")
    ec2_log = folder / "ec2.log"
    ec2 = _Running([*program, *machines], os.environ, folder, ec2_log)
    started.append(ec2)
    try:
        wait_for_ministack(aws, ministack.is_alive, log)
    except RuntimeError as error:
        raise _not_up("ministack", log) from error
    url = _wait_for_file(place / "url", ec2.is_alive, ec2_log)
    environ = {
        **_PERSON,
        "AWS_ENDPOINT_URL": aws,
        "AWS_ENDPOINT_URL_EC2": url,
        "AWS_ENDPOINT_URL_SSM": url,  # ministack has not the parameters of images
    }
    return Servers(environ, url, aws, folder)


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
