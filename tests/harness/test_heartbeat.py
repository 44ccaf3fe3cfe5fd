"""Launchers that do not hear each other any more, though nobody has closed anything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from burst.harness.heartbeat import Heartbeat

SERVER = """
import datetime, sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""
BEAT_S, SILENT_S, PATIENCE_S = 0.05, 1.0, 60.0


@pytest.fixture
def server() -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """What the first node's launcher hosts: its port and its process."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield int(process.stdout.readline()), process
    process.kill()
    process.communicate()


class Launcher:
    def __init__(self, node_rank: int, port: int, nodes: int = 3) -> None:
        self.said: list[str] = []
        self.told = threading.Event()
        self.heartbeat = Heartbeat(node_rank, nodes, self._hear, beat=BEAT_S, silent=SILENT_S)
        self.heartbeat.start("127.0.0.1", port)

    def _hear(self, text: str) -> None:
        self.said.append(text)
        self.told.set()


def heard(launcher: Launcher, of: int) -> None:
    """Until it has heard of another one."""
    until = time.monotonic() + PATIENCE_S
    while not launcher.heartbeat.heard_of(of):
        assert time.monotonic() < until, "nothing was heard"
        time.sleep(0.01)


def test_the_first_node_hears_which_node_fell_silent(
    server: tuple[int, subprocess.Popen[str]],
) -> None:
    port, _ = server
    first, second = Launcher(0, port), Launcher(1, port)
    assert first.told.wait(PATIENCE_S), "the third node never came"
    assert "node 2 " in first.said[0]
    second.heartbeat.close()


def test_the_others_hear_that_the_first_node_fell_silent(
    server: tuple[int, subprocess.Popen[str]],
) -> None:
    port, process = server
    second = Launcher(1, port, nodes=2)
    heard(second, 0)
    os.kill(process.pid, signal.SIGSTOP)
    assert second.told.wait(PATIENCE_S)
    assert "node 0 " in second.said[0]
    os.kill(process.pid, signal.SIGCONT)


def test_a_node_that_has_ended_is_not_missed(
    server: tuple[int, subprocess.Popen[str]],
) -> None:
    port, _ = server
    first, second = Launcher(0, port, nodes=2), Launcher(1, port, nodes=2)
    heard(first, 1)
    second.heartbeat.close()
    assert not first.told.wait(3 * SILENT_S)
    first.heartbeat.close()


def test_the_first_node_s_end_is_left_to_its_agent(
    server: tuple[int, subprocess.Popen[str]],
) -> None:
    port, process = server
    second = Launcher(1, port, nodes=2)
    heard(second, 0)
    process.kill()
    assert not second.told.wait(3 * SILENT_S)
    second.heartbeat.close()
