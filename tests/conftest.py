"""What every test shares: no socket leaves this machine, and no state leaks between tests."""

from __future__ import annotations

import gc
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "burst", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)
settings.load_profile("burst")

_LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")
_connect = socket.socket.connect


def _connect_on_loopback_only(self: socket.socket, address: Any) -> None:
    if isinstance(address, tuple) and not str(address[0]).startswith(_LOOPBACK):
        raise AssertionError(f"a test reached for {address}; tests stay on loopback")
    _connect(self, address)


_MEMORY = "/dev/shm"
_FREE = 2 * 2**30
"""Bytes, many times what the tests have there at once."""


def _holds_tests(folder: str) -> bool:
    """Whether it has room, and programs in it may be run."""
    with suppress(OSError):
        found = os.statvfs(folder)
        free = min(found.f_bavail * found.f_frsize, psutil.virtual_memory().available)
        return free > _FREE and not found.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK)
    return False


# Most of what tests would wait for is the disk, whenever something is made durable. No test can
# cut the power, so none sees the difference; a killed process's files are there all the same.
if _holds_tests(_MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)


def pytest_configure() -> None:
    """A suite that was started in the background ignores SIGINT, and so would every process that
    its tests start: a shell cannot even trap what it was born ignoring."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Hardly anything becomes garbage while hundreds of modules are loaded, and none of it later,
    so nothing is looked for there."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow tests first, so that no process is left alone with them at the end, and in as many
    parts as there are processes: `--dist worksteal` begins by dealing each one stretch of the
    list. The tests of a file stay together, for they share servers."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow = [item for item in items if item.get_closest_marker("slow")]
    quick = [item for item in items if not item.get_closest_marker("slow")]
    files = list(dict.fromkeys(item.path for item in slow))
    ordered: list[pytest.Item] = []
    for number in range(processes):
        size = (len(items) - len(ordered)) // (processes - number)
        part = [item for item in slow if files.index(item.path) % processes == number]
        room = max(0, size - len(part))
        ordered += part + quick[:room]
        quick = quick[room:]
    items[:] = ordered + quick


@pytest.fixture(autouse=True)
def _stay_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", _connect_on_loopback_only)


@pytest.fixture(autouse=True)
def burst_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A BURST_HOME of the test's own; nothing ever touches the real one."""
    home = tmp_path / "burst-home"
    for name in ("STORE", "BLOBS", "CLUSTER", "LAUNCH", "ALLOCATION"):
        monkeypatch.delenv(f"BURST_{name}", raising=False)
    monkeypatch.setenv("BURST_HOME", str(home))
    return home


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder for what memory and disks do differently; `tmp_path` may be in memory."""
    with TemporaryDirectory(prefix="burst-test-") as folder:
        yield Path(folder)
