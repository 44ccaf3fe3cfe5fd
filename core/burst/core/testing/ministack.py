"""A server of AWS's APIs on loopback for tests and rehearsals: ministack.

Its DynamoDB is atomic and knows the tokens that make a repetition harmless; its state is gone when
it ends.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ENVIRON = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}
"""What a client needs in its environment."""

_PATIENCE_S = 120.0
_PAUSE_S = 0.05


@contextmanager
def ministack(log: Path) -> Iterator[str]:
    """A server; yields its URL.

    Raises:
        FileNotFoundError: if ministack is not installed.
        RuntimeError: if it does not come up.
    """
    program = shutil.which("ministack", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        raise FileNotFoundError("there is no `ministack`: install it from PyPI")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {
        **os.environ,
        "BIND_HOST": "127.0.0.1",  # it would listen everywhere
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
    }
    with log.open("wb") as output:
        server = subprocess.Popen([program], stdout=output, stderr=output, env=environ)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, server, log)
        yield url
    finally:
        server.kill()
        server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(f"{url}/_ministack/health", timeout=5):
                return
        except OSError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"ministack did not come up: {log.read_text()}") from error
        time.sleep(_PAUSE_S)
