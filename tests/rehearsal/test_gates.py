"""A machine can be cut off from the servers, and joined again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from burst.runner.rehearsal.ec2.gates import Gates
from tests.rehearsal.lab import Lab

SHORT_S = 0.2
ASKING = """#!/bin/sh
python - <<'ASKING'
import os, sys, time, urllib.request
def ask(timeout):
    try:
        url = os.environ["AWS_ENDPOINT_URL_EC2"] + "/_burst/calls"
        with urllib.request.urlopen(url, timeout=timeout):
            return "answered"
    except OSError:
        return "no answer"
print("first:", ask(60), flush=True)
while not os.path.exists("cut"):
    time.sleep(0.02)
print("cut:", ask(0.5), flush=True)
while not os.path.exists("joined"):
    time.sleep(0.02)
print("joined:", ask(60), flush=True)
ASKING
"""


@pytest.fixture
def echo() -> Iterator[str]:
    """A server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection:
            while piece := connection.recv(1 << 16):
                connection.sendall(piece)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def read(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += connection.recv(count - len(found))
    return found


def test_an_open_gate_lets_everything_through(echo: str) -> None:
    gate = Gates().open(echo)
    with closing(connect(gate.url)) as connection:
        data = bytes(range(256)) * 4096
        threading.Thread(target=connection.sendall, args=(data,), daemon=True).start()
        assert read(connection, len(data)) == data
    gate.close()


def test_a_cut_gate_answers_nothing_and_refuses_nothing(echo: str) -> None:
    gate = Gates().open(echo)
    with closing(connect(gate.url)) as connection:
        connection.sendall(b"before")
        assert read(connection, 6) == b"before"
        gate.cut(True)
        connection.sendall(b"while")
        connection.settimeout(SHORT_S)
        with pytest.raises(TimeoutError):
            connection.recv(5)
        with closing(connect(gate.url)) as late:
            late.sendall(b"late")
            late.settimeout(SHORT_S)
            with pytest.raises(TimeoutError):
                late.recv(4)
            gate.cut(False)
            late.settimeout(30)
            assert read(late, 4) == b"late"
        connection.settimeout(30)
        assert read(connection, 5) == b"while"
    gate.close()


def test_a_closed_gate_ends_its_connections(echo: str) -> None:
    gate = Gates().open(echo)
    with closing(connect(gate.url)) as connection:
        connection.sendall(b"x")
        assert read(connection, 1) == b"x"
        gate.close()
        assert connection.recv(1) == b""


def test_a_partitioned_machine_reaches_no_server_until_it_is_joined(cloud: Lab) -> None:
    id = cloud.launch(ASKING)[0]
    assert "first: answered" in cloud.console(id, "first:")
    folder = Path(cloud.control.machine(id).folder)
    cloud.control.partition(id)
    assert cloud.control.machine(id).partitioned
    (folder / "cut").touch()
    assert "cut: no answer" in cloud.console(id, "cut:")
    cloud.control.partition(id, cut=False)
    (folder / "joined").touch()
    assert "joined: answered" in cloud.console(id, "joined:")
