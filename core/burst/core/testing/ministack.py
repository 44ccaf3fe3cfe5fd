"""A server of AWS's APIs on loopback for tests and rehearsals: ministack.

Its DynamoDB is atomic and knows the tokens that make a repetition harmless; its state is gone when
it ends.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

ENVIRON = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}
"""What a client needs in its environment."""

_LOWEST_PORT, _PORTS = 18_000, 14_000
_PATIENCE_S = 120.0
_PAUSE_S = 0.05


@contextmanager
def ministack(log: Path) -> Iterator[str]:
    """A server; yields its URL.

    Raises:
        FileNotFoundError: if ministack is not installed.
        RuntimeError: if it does not come up.
    """
    program, url = find_ministack(), free_url()
    with log.open("wb") as output:
        server = subprocess.Popen(
            [program], stdout=output, stderr=output, env=ministack_environ(url, os.environ)
        )
    try:
        wait_for_ministack(url, lambda: server.poll() is None, log)
        yield url
    finally:
        server.kill()
        server.wait()


def find_ministack() -> str:
    """The program's path.

    Raises:
        FileNotFoundError: if ministack is not installed.
    """
    program = shutil.which("ministack", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        raise FileNotFoundError("there is no `ministack`: install it from PyPI")
    return program


def free_url() -> str:
    """On loopback, where nothing listens now.

    Below the ports that a system gives to clients, so that no connection of anybody's takes it
    before the server does.
    """
    while True:
        port = _LOWEST_PORT + secrets.randbelow(_PORTS)
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
            return f"http://127.0.0.1:{port}"


def ministack_environ(url: str, outside: Mapping[str, str]) -> dict[str, str]:
    """What it needs in its environment to listen at `url`."""
    return {
        **outside,
        "BIND_HOST": "127.0.0.1",  # it would listen everywhere
        "GATEWAY_PORT": str(urlsplit(url).port),
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "MINISTACK_ACCOUNT_ID": "123456789012",  # the one that moto has
    }


def wait_for_ministack(url: str, alive: Callable[[], bool], log: Path) -> None:
    """Until it answers.

    Raises:
        RuntimeError: it ended, or does not come up.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(f"{url}/_ministack/health", timeout=5):
                return
        except OSError as error:
            if not alive() or time.monotonic() > deadline:
                raise RuntimeError(f"ministack did not come up: {log.read_text()}") from error
        time.sleep(_PAUSE_S)
